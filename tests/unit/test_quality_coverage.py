"""Gaps: uncovered, accepted and covered ones, and their findings."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from domain.decisions.rows import AcceptedGap, GapTreatment, Source
from domain.findings import CoverageState, Finding, Remedy
from domain.interval import Interval
from quality.coverage import (
    JOURNAL,
    SAMPLES,
    CoverageGap,
    Expectation,
    HourCoverage,
    HourUse,
    UseByHour,
    coverage_statuses,
    gap_reports,
    gaps_of_hours,
    unseen_time,
)
from quality.gap_findings import command, gap_findings

BOTH = frozenset({SAMPLES, JOURNAL})
NO_STAKES = UseByHour({})


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, 10, 9, tzinfo=UTC) + timedelta(hours=hour, minutes=minute, seconds=second)


def hours(first: int, last: int) -> Interval:
    return Interval(at(first), at(last))


def gap(
    source: str, interval: Interval, reason: str = "query failed", backfillable: bool = True
) -> CoverageGap:
    return CoverageGap("c1", source, interval, reason, backfillable)


def signed(interval: Interval, source: str = SAMPLES, pod_uid: str = "") -> AcceptedGap:
    return AcceptedGap(
        cluster_id="c1",
        source=Source(source),
        started_at=interval.started_at,
        ended_at=interval.ended_at,
        treatment=GapTreatment.BILL_NOTHING,
        reason="fire drill",
        decided_by="ada",
        decided_on=date(2026, 10, 10),
        pod_uid=pod_uid,
    )


def coverage_findings(
    expectations: list[Expectation],
    gaps: list[CoverageGap],
    decisions: list[AcceptedGap],
    stakes: UseByHour,
) -> list[Finding]:
    return gap_findings(gap_reports(expectations, gaps, decisions, stakes), "EUR")


def names(*args: object, **kwargs: object) -> list[str]:
    return [finding.name for finding in coverage_findings(*args, **kwargs)]  # type: ignore[arg-type]


MEASURED = [Expectation("c1", hours(0, 24), BOTH)]


def test_an_hour_missing_in_both_sources_blocks_and_is_named() -> None:
    [finding] = coverage_findings(
        MEASURED, [gap(SAMPLES, hours(9, 10)), gap(JOURNAL, hours(9, 10))], [], NO_STAKES
    )
    assert finding.code == "GAP-001"
    assert finding.blocks
    assert finding.cluster_id == "c1"
    assert (finding.hour_started_at, finding.hour_ended_at) == (at(9), at(10))
    assert "cluster c1, 2026-10-09T09:00:00Z to 2026-10-09T10:00:00Z" in finding.where
    assert "1 hour, 3600 s seen by no source" in finding.seen
    assert finding.what_to_do == (
        "gpu-ledger pull --cluster c1 --hours 2026-10-09T09:00:00Z..2026-10-09T10:00:00Z --all"
    )


@pytest.mark.parametrize(
    ("source", "name"), [(SAMPLES, "samples_missing"), (JOURNAL, "journal_missing")]
)
def test_a_gap_covered_by_the_other_source_does_not_block(source: str, name: str) -> None:
    [finding] = coverage_findings(MEASURED, [gap(source, hours(9, 10))], [], NO_STAKES)
    assert finding.name == name
    assert not finding.blocks
    assert finding.remedy is Remedy.NONE


@pytest.mark.parametrize("source", [SAMPLES, JOURNAL])
def test_the_gap_of_a_single_expected_source_blocks(source: str) -> None:
    expectation = [Expectation("c1", hours(0, 24), frozenset({source}))]
    assert names(expectation, [gap(source, hours(3, 4))], [], NO_STAKES) == ["hour_not_measured"]


@pytest.mark.parametrize("source", [SAMPLES, JOURNAL])
def test_a_source_that_is_not_expected_has_no_gaps(source: str) -> None:
    other = ({SAMPLES, JOURNAL} - {source}).pop()
    expectation = [Expectation("c1", hours(0, 24), frozenset({other}))]
    assert names(expectation, [gap(source, hours(3, 4))], [], NO_STAKES) == []


def test_two_gaps_block_only_where_they_overlap() -> None:
    samples = Interval(at(9, 10), at(9, 40))
    journal = Interval(at(9, 30), at(10, 20))
    found = coverage_findings(
        MEASURED, [gap(SAMPLES, samples), gap(JOURNAL, journal)], [], NO_STAKES
    )
    by_name = {finding.name: finding.affected_seconds for finding in found}
    assert by_name == {
        "hour_not_measured": 600,
        "samples_missing": 1200,
        "journal_missing": 2400,
    }


def test_adjacent_gaps_of_two_sources_leave_no_time_uncovered() -> None:
    gaps = [gap(SAMPLES, hours(9, 10)), gap(JOURNAL, hours(10, 11))]
    assert unseen_time(MEASURED[0], gaps) == []


def test_neighbouring_hours_of_one_cause_are_one_finding() -> None:
    gaps = [gap(SAMPLES, hours(h, h + 1)) for h in (7, 5, 6)]
    [finding] = coverage_findings(MEASURED, gaps, [], NO_STAKES)
    assert (finding.hour_started_at, finding.hour_ended_at) == (at(5), at(8))


def test_an_outage_with_edges_inside_hours_is_one_row_with_all_counts() -> None:
    stretches = {("c1", SAMPLES): [Interval(at(5, 20), at(8, 30))]}
    counts = {5: (40, 60), 6: (60, 60), 7: (60, 60), 8: (30, 60)}
    rows = [
        HourCoverage("c1", SAMPLES, at(h), due, due - gone, gone)
        for h, (gone, due) in counts.items()
    ]
    expectation = [Expectation("c1", hours(5, 9), BOTH)]
    reasons = {5: ("push lost", ""), 6: ("target down", ""), 7: ("query failed", "status 503")}

    def explained(row: HourCoverage) -> tuple[str, str]:
        return reasons.get(row.hour_started_at.hour, ("target down", ""))

    gaps = gaps_of_hours(expectation, rows, hours(0, 24), explained, stretches)
    of_samples = [one for one in gaps if one.source == SAMPLES]
    [report] = gap_reports(expectation, of_samples, [], NO_STAKES)
    assert report.interval == Interval(at(5, 20), at(8, 30))
    assert report.missing_seconds == 11400
    assert report.reasons == (
        "thanos: push lost, 40 of 60 samples missing",
        "thanos: query failed, 60 of 60 samples missing: status 503",
        "thanos: target down, 90 of 120 samples missing",
    )
    assert command(report).endswith("--hours 2026-10-09T05:00:00Z..2026-10-09T09:00:00Z --all")


def test_two_gaps_of_one_hour_count_its_samples_once() -> None:
    holes = [Interval(at(5, 10), at(5, 12)), Interval(at(5, 40), at(5, 41))]
    rows = [HourCoverage("c1", SAMPLES, at(5), 60, 57, 3, reason="target down")]
    expectation = [Expectation("c1", hours(5, 6), BOTH)]
    gaps = gaps_of_hours(expectation, rows, hours(0, 24), intervals={("c1", SAMPLES): holes})
    [report] = gap_reports(
        expectation, [one for one in gaps if one.source == SAMPLES], [], NO_STAKES
    )
    assert (report.interval, report.missing_seconds) == (Interval(at(5, 10), at(5, 41)), 180)
    assert report.reasons == ("thanos: target down, 3 of 60 samples missing",)


def test_gaps_in_other_hours_or_with_other_reasons_are_separate_rows() -> None:
    down, failed = "target down", "query failed"
    gaps = [
        gap(SAMPLES, Interval(at(5, 10), at(5, 12)), down),
        gap(SAMPLES, Interval(at(5, 50), at(5, 52)), down),
        gap(SAMPLES, Interval(at(6, 20), at(6, 25)), failed),
        gap(SAMPLES, Interval(at(7, 25), at(7, 26)), failed),
        gap(SAMPLES, Interval(at(7, 26), at(7, 27)), failed, backfillable=False),
    ]
    reports = gap_reports(MEASURED, gaps, [], NO_STAKES)
    assert [(one.interval, one.backfillable) for one in reports] == [
        (Interval(at(7, 26), at(7, 27)), False),
        (Interval(at(5, 10), at(5, 52)), True),
        (Interval(at(6, 20), at(6, 25)), True),
        (Interval(at(7, 25), at(7, 26)), True),
    ]


def test_an_accepted_gap_does_not_block_and_names_the_approver() -> None:
    gaps = [gap(SAMPLES, hours(9, 10)), gap(JOURNAL, hours(9, 10))]
    [finding] = coverage_findings(MEASURED, gaps, [signed(hours(9, 10))], NO_STAKES)
    assert finding.name == "gap_accepted"
    assert not finding.blocks
    assert "accepted by ada (bill_nothing: fire drill)" in finding.seen


def test_accepting_a_part_of_a_gap_leaves_the_rest_blocking() -> None:
    gaps = [gap(SAMPLES, hours(9, 11)), gap(JOURNAL, hours(9, 11))]
    found = coverage_findings(MEASURED, gaps, [signed(hours(9, 10))], NO_STAKES)
    assert [(f.name, f.hour_started_at) for f in found] == [
        ("hour_not_measured", at(10)),
        ("gap_accepted", at(9)),
    ]


def test_a_gap_accepted_for_one_pod_accepts_no_hour() -> None:
    gaps = [gap(SAMPLES, hours(9, 10)), gap(JOURNAL, hours(9, 10))]
    assert names(MEASURED, gaps, [signed(hours(9, 10), pod_uid="u1")], NO_STAKES) == [
        "hour_not_measured"
    ]


def test_a_gap_without_backfill_shows_how_to_accept_it() -> None:
    gaps = [
        gap(SAMPLES, hours(9, 10), "retention is over", backfillable=False),
        gap(JOURNAL, hours(9, 10), "no collector", backfillable=False),
    ]
    [finding] = coverage_findings(MEASURED, gaps, [], NO_STAKES)
    assert finding.remedy is Remedy.CORRECT
    assert finding.what_to_do.startswith(
        "it cannot be backfilled: gpu-ledger accept-gap --cluster c1"
    )


def test_money_at_stake_comes_from_the_nearest_measured_hour_before() -> None:
    stakes = UseByHour(
        {
            ("c1", at(7)): HourUse(1_000_000_000, 3600, ("a",)),
            ("c1", at(8)): HourUse(12_340_000_000, 7200, ("a", "b")),
            ("c1", at(10)): HourUse(99_000_000_000, 7200, ("z",)),
            ("c2", at(8)): HourUse(55_000_000_000, 7200, ("y",)),
        }
    )
    gaps = [gap(SAMPLES, hours(9, 10)), gap(JOURNAL, hours(9, 10))]
    [finding] = coverage_findings(MEASURED, gaps, [], stakes)
    assert finding.affected_nanos == 12_340_000_000
    assert "this concerns a, b, about 12.34 EUR" in finding.seen


def test_nothing_is_at_stake_after_a_measured_hour_without_usage() -> None:
    stakes = UseByHour(
        {("c1", at(7)): HourUse(12_340_000_000, 7200, ("a",))}, {("c1", at(7)), ("c1", at(8))}
    )
    gaps = [gap(SAMPLES, hours(9, 10)), gap(JOURNAL, hours(9, 10))]
    [finding] = coverage_findings(MEASURED, gaps, [], stakes)
    assert (finding.affected_nanos, finding.blocks) == (0, True)
    assert "concerns" not in finding.seen


def test_hours_without_an_attempt_are_gaps() -> None:
    rows = [HourCoverage("c1", SAMPLES, at(h), 120, 120, 0) for h in range(24) if h != 5]
    rows += [HourCoverage("c1", JOURNAL, at(h), 1, 1, 0) for h in range(24)]
    [found] = gaps_of_hours(MEASURED, rows, hours(0, 24))
    assert (found.source, found.interval, found.reason) == (SAMPLES, hours(5, 6), "never asked")
    assert found.backfillable


def test_one_missed_scrape_is_a_gap() -> None:
    rows = [HourCoverage("c1", SAMPLES, at(h), 120, 120, 0) for h in range(24) if h != 5]
    rows.append(HourCoverage("c1", SAMPLES, at(5), 120, 119, 1, reason="target down"))
    expectation = [Expectation("c1", hours(0, 24), frozenset({SAMPLES}))]
    [found] = gaps_of_hours(expectation, rows, hours(0, 24))
    assert (found.interval, found.reason) == (hours(5, 6), "target down")


def test_a_cluster_measured_from_half_past_expects_half_an_hour() -> None:
    expectation = [Expectation("c1", Interval(at(5, 30), at(7)), frozenset({SAMPLES}))]
    found = gaps_of_hours(expectation, [], hours(0, 24))
    assert [g.interval for g in found] == [Interval(at(5, 30), at(6)), hours(6, 7)]


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (HourCoverage("c1", SAMPLES, at(5), 120, 120, 0), CoverageState.COMPLETE),
        (HourCoverage("c1", SAMPLES, at(5), 120, 119, 1), CoverageState.DEGRADED),
        (HourCoverage("c1", SAMPLES, at(5), 120, 120, 0, outcome="warned"), CoverageState.DEGRADED),
        (HourCoverage("c1", SAMPLES, at(5), 120, 0, 120, outcome="failed"), CoverageState.MISSING),
        (HourCoverage("c1", SAMPLES, at(5), 0, 0, 0, outcome="empty"), CoverageState.MISSING),
        (None, CoverageState.MISSING),
    ],
)
def test_the_coverage_status_of_an_hour(row: HourCoverage | None, state: CoverageState) -> None:
    expectation = [Expectation("c1", hours(5, 6), frozenset({SAMPLES}))]
    found = coverage_statuses(expectation, [row] if row else [], [], hours(5, 6))
    assert {v.source: v.state for v in found} == {
        SAMPLES: state,
        JOURNAL: CoverageState.NOT_EXPECTED,
    }


def test_the_first_gap_of_an_hour_is_named_to_the_second() -> None:
    rows = [
        HourCoverage("c1", SAMPLES, at(5), 120, 60, 60),
        HourCoverage("c1", SAMPLES, at(6), 120, 119, 1),
        HourCoverage("c1", SAMPLES, at(7), 120, 118, 2),  # counts without times
        HourCoverage("c1", SAMPLES, at(8), 120, 0, 120),
        HourCoverage("c1", SAMPLES, at(9), 120, 120, 0),
    ]
    stretches = {
        ("c1", SAMPLES): [Interval(at(6, 40), at(6, 41)), Interval(at(5, 30), at(6, 10))],
        ("c1", JOURNAL): [hours(0, 24)],
    }
    measured = [Expectation("c1", Interval(at(5), at(9, 30)), frozenset({SAMPLES}))]
    found = coverage_statuses(measured, rows, [], hours(5, 11), stretches)
    assert [v.first_missing_at for v in found if v.source == SAMPLES] == [
        at(5, 30),
        at(6),
        None,
        at(8),
        None,
        None,
    ]
    assert {v.first_missing_at for v in found if v.source == JOURNAL} == {None}


def test_a_partly_measured_hour_is_missing_from_that_instant_on() -> None:
    measured = [Expectation("c1", Interval(at(5, 20), at(7)), frozenset({SAMPLES}))]
    found = coverage_statuses(measured, [], [], hours(5, 6))
    assert [v.first_missing_at for v in found if v.source == SAMPLES] == [at(5, 20)]


def test_every_hour_has_exactly_one_coverage_status_per_source() -> None:
    window = hours(0, 24)
    found = coverage_statuses(MEASURED, [], [], window)
    assert len(found) == 48
    assert len({(v.cluster_id, v.source, v.hour_started_at) for v in found}) == 48


def test_an_accepted_gap_waives_only_covered_hours_of_its_source() -> None:
    decisions = [signed(Interval(at(5), at(6, 30)))]
    found = coverage_statuses(MEASURED, [], decisions, hours(5, 7))
    states = {(v.source, v.hour_started_at): v.state for v in found}
    assert states == {
        (SAMPLES, at(5)): CoverageState.WAIVED,
        (SAMPLES, at(6)): CoverageState.MISSING,
        (JOURNAL, at(5)): CoverageState.MISSING,
        (JOURNAL, at(6)): CoverageState.MISSING,
    }


def test_outside_the_measured_time_nothing_is_expected() -> None:
    window = Interval(at(0) - timedelta(hours=2), at(2))
    found = coverage_statuses(MEASURED, [], [], window)
    before = [v.state for v in found if v.hour_started_at < at(0)]
    assert set(before) == {CoverageState.NOT_EXPECTED}
