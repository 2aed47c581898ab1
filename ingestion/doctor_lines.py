"""The lines of `gpu-ledger doctor`.

Put here: the value that the probes of both sources return.
Not here: the probes (`ingestion.thanos.store_probe`, `ingestion.kubernetes.api_server_probe`), or
printing.
"""

from __future__ import annotations

from dataclasses import dataclass

CLOCK_OFFSET_LIMIT_SECONDS = 2
"""A larger offset moves enough samples into another hour to change a bill."""

WATCHED_LABEL = "openshift.io/cluster-monitoring"
OPERATORS = ("gpu-operator", "amd-gpu")
"""In the names of namespaces in which GPU operators run: nvidia-gpu-operator, openshift-amd-gpu."""
OPERATORS_SPELLED = " or ".join(f"*{part}*" for part in OPERATORS)

OPERATOR_REMEDY = (
    "label the GPU operator's namespace: oc label namespace nvidia-gpu-operator "
    f"{WATCHED_LABEL}=true; elsewhere let Prometheus scrape its exporter"
)


@dataclass(frozen=True, slots=True)
class DoctorLine:
    """One check: its name, whether it passed, the observation, and the remedy.

    `patch` has the objects to apply, as YAML, where these are the remedy.
    """

    check: str
    is_fine: bool
    seen: str
    remedy: str = ""
    patch: str = ""


def clock_line(server_seconds: float, our_seconds: float) -> DoctorLine:
    """How far a server's clock is from ours."""
    offset = round(server_seconds - our_seconds)
    return DoctorLine(
        "clocks agree",
        abs(offset) <= CLOCK_OFFSET_LIMIT_SECONDS,
        f"the server's clock is {offset:+d} s off ours",
        "check NTP on both machines: samples and events would fall into another hour",
    )
