"""Pins: the jobs whose metrics are accepted, so that no exporter of a tenant is.

Put here: the exporters that can be pinned, and the matchers that follow.
Not here: which exporter writes which metric (`ingestion.metric_catalogue`), or reading config.toml
(`ingestion.settings`).

An exporter that the monitoring of tenants scrapes can write any metric, also under the name of the
platform's job. It cannot choose the label `namespace` of its own targets. So a pin is
`NAMESPACE/JOB`, and includes the namespace wherever that label is the exporter's own: in metrics of
nodes and devices, not of pods, whose namespace is the label's value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

PIN = re.compile(r"([a-z0-9-]*/)?[a-zA-Z0-9_.:/-]+", re.ASCII)


class Exporter(StrEnum):
    """The writer of a metric; values are the keys of `[thanos.NAME.pins]`."""

    KUBE_STATE_METRICS = "kube_state_metrics"
    SCHEDULER = "scheduler"
    DEVICES = "devices"
    PROMETHEUS = ""  # of its own scrapes: it decides nothing, and is never pinned


@dataclass(frozen=True, slots=True)
class Pins:
    """The accepted jobs, each `NAMESPACE/JOB` or `JOB`; () accepts all."""

    kube_state_metrics: tuple[str, ...] = ()
    scheduler: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()

    def of(self, exporter: Exporter) -> tuple[str, ...]:
        return getattr(self, exporter.value, ()) if exporter else ()

    def matchers(self, exporter: Exporter, *, is_of_pods: bool) -> str:
        """The matchers that restrict a selector to these jobs."""
        pins = [_parted(pin) for pin in self.of(exporter)]
        if not pins:
            return ""
        jobs = _one_of("job", [job for _, job in pins])
        if is_of_pods or not all(namespace for namespace, _ in pins):
            return jobs
        return f"{jobs},{_one_of('namespace', [namespace for namespace, _ in pins])}"

    @property
    def texts(self) -> tuple[str, ...]:
        """All pins, for comparison: counts under other pins are not comparable."""
        return tuple(f"{who.value}={pin}" for who in Exporter for pin in self.of(who))


NO_PINS = Pins()


def _parted(pin: str) -> tuple[str, str]:
    """Namespace and job; a job may have slashes itself, as those of pod monitors do."""
    namespace, slash, job = pin.partition("/")
    return (namespace, job) if slash else ("", pin)


def _one_of(label: str, texts: list[str]) -> str:
    if len(set(texts)) == 1:
        return f'{label}="{texts[0]}"'
    return f'{label}=~"{"|".join(text.replace(".", "[.]") for text in dict.fromkeys(texts))}"'
