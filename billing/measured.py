"""What was measured: hours by witness, hours left out and who signed, for the foot of a document.

Put here: the summary of verdicts and signed gaps per cluster.
Not here: the verdicts themselves (`quality`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from billing.sealing import Document
from domain.decisions.rows import AcceptedGap
from domain.findings import Verdict, VerdictState
from domain.interval import Interval, format_instant


def measured_section(
    clusters: Iterable[str],
    names: Mapping[str, str],
    verdicts: Sequence[Verdict],
    signed: Sequence[AcceptedGap],
    window: Interval,
) -> list[Document]:
    """One entry per cluster, in order; only clusters that concern the reader are given."""
    return [
        {
            "cluster_id": cluster,
            "cluster_name": names.get(cluster, ""),
            **_hours(verdict for verdict in verdicts if verdict.cluster_id == cluster),
            "signed": _signed(signed, cluster, window),
        }
        for cluster in sorted(clusters)
    ]


def _hours(verdicts: Iterable[Verdict]) -> Document:
    states: defaultdict[datetime, list[VerdictState]] = defaultdict(list)
    by_source: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for verdict in verdicts:
        by_source[verdict.source][verdict.state.value] += 1
        if verdict.state is not VerdictState.NOT_EXPECTED:
            states[verdict.hour_started_at].append(verdict.state)
    complete = [found.count(VerdictState.COMPLETE) for found in states.values()]
    alone = [
        len(found) > 1 and found.count(VerdictState.COMPLETE) == 1 for found in states.values()
    ]
    return {
        "hours_expected": len(states),
        "hours_measured": sum(count > 0 for count in complete),
        "hours_with_one_witness_of_two": sum(alone),
        "hours_not_wholly_measured": sum(count == 0 for count in complete),
        "hours_by_source": {
            source: dict(sorted(counts.items())) for source, counts in sorted(by_source.items())
        },
    }


def _signed(signed: Iterable[AcceptedGap], cluster: str, window: Interval) -> list[Document]:
    found: list[Document] = []
    for gap in signed:
        inside = gap.interval.clipped_to(window)
        if gap.cluster_id == cluster and inside and not gap.pod_uid:
            found.append(
                {
                    "source": gap.source.value,
                    "started_at": format_instant(inside.started_at),
                    "ended_at": format_instant(inside.ended_at),
                    "treatment": gap.treatment.value,
                    "reason": gap.reason,
                    "decided_by": gap.decided_by,
                    "decided_on": gap.decided_on.isoformat(),
                }
            )
    return sorted(found, key=lambda entry: sorted((k, str(v)) for k, v in entry.items()))
