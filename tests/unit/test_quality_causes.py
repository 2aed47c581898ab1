"""Classes of gaps, derived from other evidence of the same time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.clock import StoppedClock
from domain.findings import Finding, Remedy
from quality.causes import NEEDED_METRICS, GapCause, MetricHour, cause_of
from quality.coverage import JOURNAL, SAMPLES, HourCoverage
from quality.run import check_period
from tests.marts_by_hand import SIGNED, Pod, World, at
from warehouse.connection import connected

HOUR = at("09 10:00")
WHOLE, PART, GONE = MetricHour(120, 0), MetricHour(120, 20), MetricHour(120, 120)


def row(seen: int = 60, outcome: str = "ok", source: str = SAMPLES) -> HourCoverage:
    return HourCoverage("c1", source, HOUR, 120, seen, 120 - seen, outcome)


@pytest.mark.parametrize(
    ("coverage", "metrics", "cause"),
    [
        (row(0, "not_asked"), {}, GapCause.NEVER_ASKED),
        (row(0, "failed"), {}, GapCause.QUERY_FAILED),
        (row(0, "refused"), {"up": WHOLE}, GapCause.QUERY_FAILED),
        (row(60, "truncated"), {"up": PART}, GapCause.QUERY_FAILED),
        (row(60), {"up": WHOLE, "kube_pod_info": PART}, GapCause.TARGET_DOWN),
        (row(0), {"up": WHOLE, "kube_pod_info": GONE}, GapCause.TARGET_DOWN),
        (
            row(60),
            {"up": WHOLE, "kube_node_labels": WHOLE, "kube_pod_status_phase": PART},
            GapCause.METRIC_LOST,
        ),
        (
            row(60),
            {"up": WHOLE, "kube_node_status_capacity": MetricHour(60, 0), "kube_pod_info": PART},
            GapCause.TARGET_DOWN,
        ),
        (
            row(60),
            {"up": WHOLE, "kube_node_labels": PART, "kube_pod_info": WHOLE},
            GapCause.TARGET_DOWN,
        ),
        (row(60), {"up": PART, "kube_pod_info": PART}, GapCause.PUSH_LOST),
        (row(0), {"up": GONE, "kube_pod_info": GONE}, GapCause.STORE_MISSING),
        (row(0, "empty"), {}, GapCause.STORE_MISSING),
        (row(120, "degraded"), {"up": WHOLE, "kube_pod_info": WHOLE}, GapCause.INCOMPLETE),
        (row(120, "warned"), {"up": WHOLE, "kube_pod_info": PART}, GapCause.INCOMPLETE),
        (row(0, source=JOURNAL), {}, GapCause.COLLECTOR_LOST),
        (row(0, "empty", source=JOURNAL), {}, GapCause.COLLECTOR_LOST),
        (row(0, "not_asked", source=JOURNAL), {}, GapCause.NEVER_ASKED),
        (row(0, "failed", source=JOURNAL), {}, GapCause.QUERY_FAILED),
        (row(60, source=JOURNAL), {}, GapCause.JOURNAL_GAP),
    ],
)
def test_the_class_of_a_gap(
    coverage: HourCoverage, metrics: dict[str, MetricHour], cause: GapCause
) -> None:
    assert cause_of(coverage, metrics) is cause


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "home")
    world.pods = [Pod("team-a", "train", at("09 10:00"), at("09 11:30"))]
    return world


def findings(world: World) -> list[Finding]:
    clock = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))
    return list(check_period(world.home, world.period, world.decisions, clock).findings)


def test_one_missed_scrape_is_found_with_its_cause(world: World) -> None:
    world.lose("thanos", "09 10:00", seen=119, reason="", outcome="ok")
    world.metrics_left = ("up",)
    world.write()
    [finding] = findings(world)
    assert finding.code == "GAP-002"
    assert "1 hour (thanos: target down, 1 of 120 samples missing)" in finding.seen


FEWER = "a store is gone: 1 answer, 2 did at 2026-10-08T12:00:00Z"


def test_a_suspicious_response_is_degraded_although_no_sample_is_missing(
    world: World,
) -> None:
    """Half of the pods were in a store that is gone; the others have no gap."""
    world.lose("thanos", "09 10:00", seen=120, reason=FEWER, outcome="degraded")
    world.metrics_left = ("up", REQUESTS)
    world.write()
    [finding] = findings(world)
    assert (finding.code, finding.blocks) == ("GAP-002", False)
    assert finding.seen == f"1 hour (thanos: response not complete: {FEWER}); the journal covers it"
    world.clusters = {"c1": "samples"}
    world.write()
    [alone] = findings(world)
    assert (alone.code, alone.blocks) == ("GAP-001", True)
    assert f"3600 s seen by no source (thanos: response not complete: {FEWER})" in alone.seen
    assert alone.what_to_do.startswith("gpu-ledger pull --cluster c1 --hours")


WITHOUT_UID = '{"namespace":"team-a","node":"n1","pod":"train","pod_uid":"5f"}'
REQUESTS = "kube_pod_container_resource_requests"
RENAMED = (REQUESTS, "uid", "", "09 10:10", "09 10:19:30", 4, 80, WITHOUT_UID)
FORGED = (REQUESTS, "", "namespace", "09 10:10", "09 10:19:30", 1, 20, "../../\x1b[2Jx")
NAN = (REQUESTS, "", "", "09 10:20", "09 10:20", 1, 1, "NaN")


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (RENAMED, f"label renamed, 80 samples of 4 series refused: {REQUESTS} without the label"
         " uid, with namespace, node, pod, pod_uid"),
        (FORGED, f"label invalid, 20 samples of 1 series refused: {REQUESTS} with"
         " namespace='../../\\x1b[2Jx', which Kubernetes cannot have"),
        (NAN, f"value refused, 1 samples of 1 series refused: {REQUESTS} of NaN"),
    ],
)  # fmt: skip
def test_refused_samples_are_missing_with_their_cause(
    world: World, refused: tuple[str, str, str, str, str, int, int, str], said: str
) -> None:
    world.refused = [refused]
    world.write()
    [finding] = findings(world)
    assert (finding.code, finding.blocks) == ("GAP-002", False)
    assert finding.seen == f"1 hour (thanos: {said}); the journal covers it"


def test_refused_samples_block_without_a_journal_until_accepted(world: World) -> None:
    """The last sample is valid for 30 s more; a second query changes nothing."""
    world.clusters = {"c1": "samples"}
    world.refused = [RENAMED]
    world.write()
    [finding] = [f for f in findings(world) if f.code.startswith("GAP")]
    assert (finding.code, finding.blocks, finding.remedy) == ("GAP-001", True, Remedy.CORRECT)
    assert finding.where == "cluster c1, 2026-10-09T10:10:00Z to 2026-10-09T10:20:00Z"
    assert "label renamed" in finding.seen
    world.accepted_gaps = [
        f"c1,thanos,2026-10-09T10:10:00Z,2026-10-09T10:20:00Z,bill_nothing,{SIGNED},"
    ]
    world.write()
    [finding] = [f for f in findings(world) if f.code.startswith("GAP")]
    assert (finding.code, finding.blocks) == ("GAP-004", False)


@pytest.mark.parametrize(
    ("source", "code", "count"),
    [
        ("thanos", "GAP-002", "120 of 120 samples"),
        ("kubernetes", "GAP-003", "3600 of 3600 seconds"),
    ],
)
def test_an_hour_without_an_attempt_is_named_as_such(
    world: World, source: str, code: str, count: str
) -> None:
    world.lose(source, "09 10:00", seen=0, reason="never asked", outcome="not_asked")
    world.write()
    [finding] = findings(world)
    assert (finding.code, finding.blocks) == (code, False)
    assert f"1 hour ({source}: never asked, {count} missing)" in finding.seen


def test_the_error_of_the_source_is_quoted(world: World) -> None:
    world.lose("thanos", "09 10:00", reason="status 503 with text/html, not JSON")
    world.write()
    [finding] = findings(world)
    assert "query failed, 120 of 120 samples missing: status 503" in finding.seen


@pytest.mark.parametrize("metric", NEEDED_METRICS)
def test_a_metric_without_any_sample_is_named(world: World, metric: str) -> None:
    world.metrics = tuple(name for name in NEEDED_METRICS if name != metric)
    world.metrics_lost = (metric,)
    world.write()
    [finding] = findings(world)
    assert (finding.code, finding.blocks) == ("GAP-007", False)
    assert finding.where == f"cluster c1, metric {metric}"


def test_request_metrics_are_optional_while_no_pod_requests_a_device(world: World) -> None:
    world.pods = []
    world.metrics = tuple(name for name in NEEDED_METRICS if name != REQUESTS)
    world.write()
    assert findings(world) == []


def test_without_expected_samples_no_metric_is_missing(world: World) -> None:
    world.clusters = {"c1": "lifecycle"}
    world.metrics = ("up",)
    world.write()
    assert findings(world) == []


OTHER_POD = """
    update marts.fct_gpu_use
    set pod_name = 'dcgm-exporter-x', pod_uid = '', is_used_unallocated = true
"""
ANOTHER_DEVICE = """
    insert into marts.fct_gpu_use by name
    select * replace ('' as pod_uid, 'stolen' as device_uuid, true as is_used_unallocated)
    from marts.fct_gpu_use
"""
NAMED_FOR_HALF_OF_THE_HOUR = """
    insert into marts.fct_gpu_use by name
    select * replace (
        'dcgm-exporter-x' as pod_name, '' as pod_uid, true as is_used_unallocated
    ) from marts.fct_gpu_use
"""


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (OTHER_POD, "GAP-008"),
        (NAMED_FOR_HALF_OF_THE_HOUR, "GAP-008"),
        (ANOTHER_DEVICE, "USE-001"),
    ],
)
def test_busy_devices_without_a_pod_are_reported_and_do_not_block(
    world: World, statement: str, code: str
) -> None:
    """If a pod of the node has no named device, it may use this one; otherwise no pod does."""
    home = world.write()
    with connected(home.warehouse_path) as connection:
        connection.execute(statement)
    found = [f for f in findings(world) if f.code in ("GAP-008", "USE-001")]
    assert [(f.code, f.where) for f in found] == [(code, "cluster c1, node node-1")]
    assert not found[0].blocks


@pytest.mark.parametrize(("hours", "codes"), [([8], []), ([8, 12], []), ([8, 9], ["USE-002"])])
def test_two_names_of_one_reading_are_a_finding_beyond_an_upgrade(
    world: World, hours: list[int], codes: list[str]
) -> None:
    """An exporter that is upgraded writes both names in one hour; two exporters do in
    every hour.
    """
    home = world.write()
    with connected(home.warehouse_path) as connection:
        [[first]] = connection.execute(
            "select min(hour_started_at) from marts.fct_gpu_use"
        ).fetchall()
        connection.executemany(
            """
            insert into marts.fct_gpu_use by name
            select * replace (? as hour_started_at, true as has_two_names)
            from marts.fct_gpu_use limit 1
            """,
            [[first + timedelta(hours=hour)] for hour in hours],
        )
    found = [f for f in findings(world) if f.code == "USE-002"]
    assert [f.code for f in found] == codes
    assert not any(f.blocks for f in found)
