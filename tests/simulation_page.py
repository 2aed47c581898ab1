"""The page of what became of every fault in simulated months.

Put here: counting fates over months, why a fault may leave no finding, and the page.
Not here: living the months (`tests.simulated`), or comparing them (the tests of simulated months).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

PAGE = "explanation/simulation.md"

REPAIRED = {
    "store_vanishes": "It was away while the hours were asked. Answers of fewer stores or series "
    "are doubted; asked again, they were whole. Where it stayed away, the hours are gaps.",
    "receiver_gone": "Series that end together are doubted; asked again, they were whole.",
    "empty_success": "An answer without its sentinel is no answer; asked again, it was whole.",
    "timeout": "A query that fails is asked again.",
    "mass_absence": "A list that lacks many pods at once ends none of them, and is asked again.",
    "api_unavailable": "The collector asks again, and its watch goes on from where it was.",
}
"""Kinds whose evidence comes when it is asked for again."""
HARMLESS = {
    "second_kube_state_metrics": "What two exporters say of one pod is one pod.",
    "replicas_undeclared": "What two replicas say of one pod is one pod, whatever names them.",
    "lookback_overrun": "Raw samples of whole hours are asked for, and those look back nowhere.",
    "exporter_moved": "A series is its pod's, whichever exporter tells it.",
    "honor_labels_flipped": "A pod is read from both spellings of its labels.",
    "pod_metadata_lost": "Labels and owners decide no amount, and the journal has them.",
    "hostname_label_renamed": "Telemetry shows use and decides no amount; both names are read.",
    "model_renamed": "Telemetry decides no amount: the class is the node's label when pods start.",
    "forged_series": "Nothing is billed by telemetry. USE-001 tells of use that nobody could have.",
    "watch_replays": "An event that is older than what is known changes nothing.",
    "events_twice": "An event counts once, however often it is told.",
    "start_rewritten": "The earliest start that was ever observed stays.",
    "pods_replaced": "A pod is its UID, not its name.",
    "crash_loop": "A container that restarts does not end its pod.",
    "preemption": "A preempted pod ends as others do, when its last container has ended.",
    "terminal_pods_kept": "A request that lingers after its pod's end is no sample.",
    "node_not_ready": "The evidence is whole: pods are billed until they end.",
    "node_removed": "The evidence is whole: its pods end with it.",
    "card_unhealthy": "The evidence is whole: the card is counted as unhealthy, not as idle.",
    "mig_repartition": "The evidence is whole: a pod keeps what it was when it was bound.",
}
"""Kinds that take no evidence away, or only what decides no amount."""
OTHERWISE = "Every second that was counted is right."


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one fault in one cluster of one month."""

    kind: str
    codes: tuple[str, ...]  # as the catalogue of faults calls it
    fired: int | None  # None where the fleet does not count it
    told: Counter[str] = field(default_factory=Counter)  # findings by code
    wrong_pod_hours: int = 0  # all of them flagged: the tests fail otherwise


TEXT = """# Simulation: what became of every fault

Written by `make simulate N={asked}` on {day}: {tenant_months} tenant-months, {seeds}.
Each month is a fleet of many small clusters, each with one fault and every sixth with none. It
is served over HTTP, watched, asked, counted, checked, signed and closed as a real one, and compared
with what the fleet knows to be true. The page is written only when every comparison holds:

- Each second that was billed is the true one, or a finding of its very hour says that it may not
  be. (So does GAP-003 where nobody watched: a pod that no scrape met leaves nothing then, which is
  one of the [honest limits](limits.md).)
- Where no pod-hour is wrong, every invoice is right to the cent.
- A cluster without a fault has no finding, and every finding is of its fault's time and place.
  (Pods that were too short to be sampled, REC-003, are told everywhere: nothing is wrong with
  them.)

A star marks faults that would corrupt a bill in silence. *Fired* is how often the fault did
something, as far as the fleet counts it. The next three count clusters in which it fired:
*caught*, a finding told of it; *repaired*, the evidence came whole when it was asked for again;
*unnoticed*, nothing was told, because nothing that was counted is wrong.

| fault | called | fired | caught | repaired | unnoticed | findings, or why none |
|---|---|---|---|---|---|---|
{rows}

Together {faults} faults of {kinds} kinds. What each kind does is in [the scenario file's
reference](../reference/scenario-file.md), what each finding means on
[its page](../findings/index.md). The limits of a tenant's month (GAP-005, GAP-006) are passed by
many tenants at once: a cluster is measured for two hours of its month here.
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
    caught = [fate for fate in fates if fate.told]
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
    told: Counter[str] = Counter()
    for fate in caught:
        told.update(fate.told)
    if told:
        listed = (f"[{code}](../findings/{code}.md) × {told[code]}" for code in sorted(told))
        yield f"{', '.join(listed)}."
    if wrong := sum(fate.wrong_pod_hours for fate in caught):
        yield f"{wrong} pod-hours are uncertain or disputed, each in a finding of its hour."
    if silent:
        yield REPAIRED.get(kind) or HARMLESS.get(kind) or OTHERWISE
