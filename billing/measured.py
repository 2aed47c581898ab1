"""What was measured: hours by source, hours left out and who signed, for the foot of a document.

Put here: the summary of coverage statuses and signed gaps per cluster.
Not here: the coverage statuses themselves (`quality`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from billing.sealing import Document
from domain.decisions.rows import AcceptedGap
from domain.findings import CoverageState, CoverageStatus
from domain.interval import Interval, format_instant


def measured_section(
    clusters: Iterable[str],
    names: Mapping[str, str],
    coverage_statuses: Sequence[CoverageStatus],
    signed: Sequence[AcceptedGap],
    window: Interval,
) -> list[Document]:
    """One entry per cluster, in order; only clusters that concern the reader are given."""
    return [
        {
            "cluster_id": cluster,
            "cluster_name": names.get(cluster, ""),
            **_hours(
                coverage_status
                for coverage_status in coverage_statuses
                if coverage_status.cluster_id == cluster
            ),
            "signed": _signed(signed, cluster, window),
        }
        for cluster in sorted(clusters)
    ]


def _hours(coverage_statuses: Iterable[CoverageStatus]) -> Document:
    expected: defaultdict[datetime, list[CoverageState]] = defaultdict(list)
    by_source: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for coverage_status in coverage_statuses:
        by_source[coverage_status.source][coverage_status.state.value] += 1
        if coverage_status.state is not CoverageState.NOT_EXPECTED:
            expected[coverage_status.hour_started_at].append(coverage_status.state)
    complete = [states.count(CoverageState.COMPLETE) for states in expected.values()]
    sources = [len(states) for states in expected.values()]
    alone = [whole == 1 and of > 1 for whole, of in zip(complete, sources, strict=True)]
    return {
        "hours_expected": len(expected),
        "hours_measured": sum(whole > 0 for whole in complete),
        "hours_with_one_source_of_two": sum(alone),
        "hours_not_wholly_measured": complete.count(0),
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
