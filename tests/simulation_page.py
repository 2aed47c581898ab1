"""The page with the result of each fault in simulated months.

Put here: results over months, the reason for a fault without a finding, and the page.
Not here: simulating the months (`tests.simulated`), or comparing them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

PAGE = "explanation/simulation.md"

REPAIRED = {
    "store_vanishes": "The store was away during the pull. Responses of fewer stores or series "
    "are queried again, and were then complete. If the store stayed away, the hours are gaps.",
    "receiver_gone": "If many series end together, the hour is queried again, and was then "
    "complete.",
    "empty_success": "A response without its sentinel is refused; the second response was "
    "complete.",
    "timeout": "A failed query is repeated.",
    "mass_absence": "A list that lacks many pods at once ends none of them, and is repeated.",
    "api_unavailable": "The collector retries, and its watch resumes at the last version.",
}
"""Kinds whose evidence is complete at the second query."""
HARMLESS = {
    "second_kube_state_metrics": "Series of one pod from two exporters are merged.",
    "replicas_undeclared": "Series of one pod from two replicas are merged, whatever label "
    "distinguishes them.",
    "lookback_overrun": "Pulls query raw samples of whole hours, without look-back.",
    "exporter_moved": "A series belongs to its pod, independent of the exporter.",
    "honor_labels_flipped": "Both spellings of pod labels are read.",
    "pod_metadata_lost": "No amount depends on labels and owners, and the journal has them.",
    "hostname_label_renamed": "No amount depends on telemetry; both names are read.",
    "model_renamed": "No amount depends on telemetry: the class comes from the node's label "
    "at the start of the pod.",
    "forged_series": "No amount depends on telemetry. USE-001 reports utilisation without an "
    "allocation.",
    "watch_replays": "An event that is older than the recorded state is ignored.",
    "events_twice": "Repeated events count once.",
    "start_rewritten": "The earliest observed start is used.",
    "pods_replaced": "Pods are identified by UID, not by name.",
    "crash_loop": "A restart of a container does not end its pod.",
    "preemption": "A preempted pod ends like other pods, when its last container has ended.",
    "terminal_pods_kept": "Samples of requests after the end of a pod are not counted.",
    "node_not_ready": "The evidence is complete: pods are billed until they end.",
    "node_removed": "The evidence is complete: the pods end with the node.",
    "card_unhealthy": "The evidence is complete: the card is counted as unhealthy, not as idle.",
    "mig_repartition": "The evidence is complete: a pod keeps the class of its binding.",
}
"""Kinds that remove no evidence, or only evidence on which no amount depends."""
OTHERWISE = "All counted seconds are correct."


@dataclass(frozen=True, slots=True)
class Fate:
    """The result of one fault in one cluster of one month."""

    kind: str
    codes: tuple[str, ...]  # of the catalogue of faults
    fired: int | None  # None where the fleet does not count it
    findings: Counter[str] = field(default_factory=Counter)  # findings by code
    wrong_pod_hours: int = 0  # all of them flagged: the tests fail otherwise


TEXT = """# Simulation: the result of each fault

Written by `make simulate N={asked}` on {day}: {tenant_months} tenant-months, {seeds}. Each month
is a fleet of many small clusters: each has one fault, and every sixth has none. It is served over
HTTP, watched, pulled, counted, checked, waived and closed like a real fleet, and compared with
the truth ledger. The page is written only if all comparisons hold:

- Each billed second equals the truth, or a finding of its hour reports the uncertainty. (GAP-003
  reports it if there was no watch: a pod without any sample then leaves no evidence, which is one
  of the [limits](limits.md).)
- If no pod-hour is wrong, each invoice is correct to the cent.
- A cluster without a fault has no finding, and each finding belongs to the time and place of its
  fault. (Pods that were too short to be sampled, REC-003, are reported everywhere; their bills
  are correct.)

A star marks faults that would corrupt a bill without an error. *Fired* is the number of times the
fault changed a response, if the fleet counts it. The next three columns count clusters in which
it fired: *caught*: a finding reported it; *repaired*: a second query returned the complete
evidence; *harmless*: there was no finding, because no counted number was wrong.

| fault | code | fired | caught | repaired | harmless | findings, or the reason for none |
|---|---|---|---|---|---|---|
{rows}

Together {faults} faults of {kinds} kinds. The [scenario file's
reference](../reference/scenario-file.md) describes each kind, and the pages of the
[findings](../findings/index.md) explain each finding. Many tenants exceed the monthly limits
(GAP-005, GAP-006) at once, because a cluster is measured for two hours of its month here.
"""


def page(
    fates: Sequence[Fate], seeds: Sequence[int], asked: int, tenant_months: int, day: date
) -> str:
    kinds = list(dict.fromkeys(fate.kind for fate in fates))
    return TEXT.format(
        asked=asked,
        day=day,
        tenant_months=tenant_months,
        seeds=f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}",
        rows="\n".join(_row([fate for fate in fates if fate.kind == kind]) for kind in kinds),
        faults=len(fates),
        kinds=len(kinds),
    )


def _row(fates: Sequence[Fate]) -> str:
    first = fates[0]
    counted = [fate.fired for fate in fates if fate.fired is not None]
    caught = [fate for fate in fates if fate.findings]
    silent = len(fates) - len(caught)
    is_repaired = first.kind in REPAIRED
    cells = (
        f"`{first.kind}`",
        " ".join(first.codes),
        str(sum(counted)) if counted else "not counted",
        *map(_count, (len(caught), silent * is_repaired, silent * (not is_repaired))),
        " ".join(_words(first.kind, caught, silent)),
    )
    return f"| {' | '.join(cells)} |"


def _count(number: int) -> str:
    return str(number) if number else ""


def _words(kind: str, caught: Iterable[Fate], silent: int) -> Iterator[str]:
    findings: Counter[str] = Counter()
    for fate in caught:
        findings.update(fate.findings)
    if findings:
        listed = (
            f"[{code}](../findings/{code}.md) × {findings[code]}" for code in sorted(findings)
        )
        yield f"{', '.join(listed)}."
    if wrong := sum(fate.wrong_pod_hours for fate in caught):
        yield f"{wrong} pod-hours are uncertain or disputed, each in a finding of its hour."
    if silent:
        yield REPAIRED.get(kind) or HARMLESS.get(kind) or OTHERWISE
