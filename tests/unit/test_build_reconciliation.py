"""Both sources of one allocation: every reconciliation rule, in situations that are easy to check.

Samples are taken every 30 s at 7, 37, 67 … seconds; both sources cover two hours. Each situation is
a separate cluster, and one build reconciles them all.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.decisions_by_hand import decided, table
from tests.evidence_by_hand import (
    A100,
    GPU,
    HOUR,
    PERIOD,
    Cluster,
    Pod,
    clusters_table,
    epoch,
    text,
    write,
)
from warehouse.build import build_period
from warehouse.connection import connected
from warehouse.home import Home

SegmentRow = tuple[str, str, int, int, int]


def cluster(name: str, *pods: Pod, **changes: Any) -> Cluster:
    return Cluster(name, list(pods), **changes)


REQUESTS, PHASE = "kube_pod_container_resource_requests", "kube_pod_status_phase"
A100_PRODUCT = A100["nvidia.com/gpu.product"]
SCHEDULER, STARTED = "kube_pod_resource_request", "kube_pod_container_state_started"
WHO = {"namespace": "team-a", "pod": "p", "uid": "uid-team-a-p"}
ASKED = {"container": "main", "node": "n1", "resource": "nvidia_com_gpu", "unit": "integer"}
SCHEDULED = {"namespace": "team-a", "pod": "p", "node": "n1", "resource": "nvidia.com/gpu"}
OTHER_PRODUCT = {"node": "n1", "label_nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3"}


def contradicted(name: str, *series: tuple[str, dict[str, str], str], **changes: Any) -> Cluster:
    """A pod with samples only, and other series from 900 to 2100 that contradict its own."""
    more = [(metric, labels, 900, 2100, value) for metric, labels, value in series]
    pod = Pod("p", 1000, 2000, **changes)
    return cluster(name, pod, series=more, with_journal=False)


CONTRADICTED = [
    contradicted("two_namespaces", (PHASE, WHO | {"namespace": "team-b", "phase": "Running"}, "1")),
    contradicted("two_names", (REQUESTS, WHO | ASKED | {"pod": "q"}, "1")),
    contradicted("two_nodes", (REQUESTS, WHO | ASKED | {"node": "n2"}, "1")),
    contradicted("two_requests", (REQUESTS, WHO | ASKED | {"instance": "b"}, "2")),
    contradicted("a_request_of_zero_as_well", (REQUESTS, WHO | ASKED | {"instance": "b"}, "0")),
    contradicted(
        "another_container",
        (REQUESTS, WHO | ASKED | {"container": "copy"}, "1"),
        (SCHEDULER, SCHEDULED, "1"),
    ),
    contradicted("free_by_its_request", (SCHEDULER, SCHEDULED, "1"), requests={GPU: 0}),
    contradicted("fewer_by_its_request", (SCHEDULER, SCHEDULED, "4"), requests={GPU: 1}),
    contradicted("two_products", ("kube_node_labels", OTHER_PRODUCT, "1")),
]
WITHOUT_A_PHASE = "11111111-2222-4333-8444-555555555555"
OTHER = {"namespace": "team-b", "pod": "q", "uid": WITHOUT_A_PHASE}
TIMES = [
    cluster(
        "phase_of_one_pod_missing",
        Pod("p", 1000, 2000),
        series=[(REQUESTS, OTHER | ASKED, 1000, 2000, "1")],
        with_journal=False,
    ),
    cluster(
        "started_before_it_was_there",
        Pod("p", 1000, 2000, namespace="team-b"),
        series=[
            (
                STARTED,
                WHO | {"namespace": "team-b", "uid": "uid-team-b-p", "container": "x"},
                *(1000, 2000, str(epoch(10))),
            )
        ],
        with_journal=False,
    ),
    cluster(
        "request_of_one_pod_missing",
        Pod("p", 1000, 2000),
        series=[
            (PHASE, OTHER | {"phase": "Running"}, 1000, 2000, "1"),
            (SCHEDULER, SCHEDULED | {"namespace": "team-b", "pod": "q"}, 1000, 2000, "1"),
        ],
        with_journal=False,
    ),
]
CONSISTENT = [
    contradicted("scheduler_agrees", (SCHEDULER, SCHEDULED, "1")),
    contradicted("not_yet_on_a_node", (REQUESTS, WHO | ASKED | {"node": ""}, "1")),
    contradicted("seen_by_two_exporters", (REQUESTS, WHO | ASKED | {"instance": "b"}, "1")),
    contradicted("requests_none", requests={GPU: 0}),
    contradicted(
        "another_sharing_label",
        ("kube_node_labels", OTHER_PRODUCT | {"label_nvidia_com_gpu_product": A100_PRODUCT}, "1"),
    ),
]
BOTH = [
    cluster("agreed", Pod("p", 100, 5000), contradictions=[(3000, "uid-p", "absent_then_seen")]),
    cluster("one_scrape_lost", Pod("p", 100, 5000), lost_scrapes=[(1010, 1040)]),
    cluster("too_short_to_be_sampled", Pod("p", 1000, 1020)),
    cluster("starts_and_ends_in_one_second", Pod("p", 1010, 1010)),
    cluster("just_short_enough", Pod("p", 1000, 1075, in_samples=False)),
    cluster("a_second_too_long", Pod("p", 1000, 1076, in_samples=False)),
    cluster("absent_without_a_gap", Pod("p", 1000, 3000, in_samples=False)),
    cluster("absent_in_a_gap", Pod("p", 1000, 3000), lost_scrapes=[(900, 3100)]),
    cluster("samples_begin_late", Pod("p", 1000, 3000, sampled_from=1500)),
    cluster("samples_end_early", Pod("p", 1000, 3000, sampled_until=2000)),
    cluster("phase_has_a_gap", Pod("p", 1000, 3000, phase_lost_from=2000)),
    cluster(
        "many_end_at_one_scrape",
        Pod("p", 1000, 3000, sampled_until=2000),
        *(Pod(f"p{number}", 1000, 2000) for number in range(4)),
    ),
    cluster("samples_before_the_start", Pod("p", 1000, 3000, bound=500, sampled_from=800)),
    cluster("samples_after_the_end", Pod("p", 1000, 3000, sampled_until=3100)),
    cluster("a_sample_within_the_clocks", Pod("p", 1000, 3000, sampled_until=3010)),
    cluster("requests_continue", Pod("p", 1000, 3000, lingers=4000)),
    cluster("journal_gap_inside_a_lifetime", Pod("p", 100, 5000), unwatched=[(1000, 2000)]),
    cluster("end_lost_samples_continue", Pod("p", 100, 2500), unwatched=[(2000, 3000)]),
    cluster(
        "end_lost_samples_outlast_the_gap",
        Pod("p", 100, 2500, sampled_until=4000),
        unwatched=[(2000, 3000)],
    ),
    cluster(
        "start_lost_and_restarted_in_a_gap",
        Pod("p", 2600, 5000, bound=1900, first_started=2100),
        unwatched=[(2000, 3000)],
    ),
    cluster("lifetime_inside_a_journal_gap", Pod("p", 2100, 2500), unwatched=[(2000, 3000)]),
    cluster(
        "end_lost_to_both",
        Pod("p", 100, 2500),
        unwatched=[(2000, 3000)],
        lost_scrapes=[(1990, 3010)],
    ),
    cluster("end_lost_between_two_samples", Pod("p", 100, 2010), unwatched=[(2000, 3000)]),
    cluster("unknown_to_the_journal", Pod("p", 1000, 2000, in_journal=False)),
    cluster(
        "another_count_in_the_samples",
        Pod("p", 1000, 2000, requests={GPU: 2}),
        series=[(REQUESTS, WHO | ASKED | {"container": "copy"}, 1000, 2000, "1")],
    ),
    cluster(
        "another_namespace_in_the_samples",
        Pod("p", 1000, 2000, in_samples=False),
        series=[
            (REQUESTS, WHO | ASKED | {"namespace": "team-b"}, 1000, 2000, "1"),
            (PHASE, WHO | {"namespace": "team-b", "phase": "Running"}, 1000, 2000, "1"),
        ],
    ),
    cluster("end_without_a_time", Pod("p", 100, 2500, end_is_told=False)),
    cluster("never_started", Pod("p", None, 2500, bound=1000)),
    cluster("held_first", Pod("p", 1000, 2500, bound=900)),
    cluster(
        "name_used_again",
        Pod("p", 100, 1000, uid="first"),
        Pod("p", 1000, 2000, uid="second"),
    ),
]
SAMPLES_ONLY = [
    *CONTRADICTED,
    *TIMES,
    *CONSISTENT,
    cluster("only_samples", Pod("p", 1000, 2000), with_journal=False),
    cluster("only_samples_restarted", Pod("p", 1000, 2000, restarted=1300), with_journal=False),
    cluster(
        "only_samples_end_in_a_gap",
        Pod("p", 1000, 2000),
        with_journal=False,
        lost_scrapes=[(1960, 2300)],
    ),
    cluster("only_samples_at_both_edges", Pod("p", -100, None), with_journal=False),
    cluster(
        "phases_are_a_scrape_late",
        series=[
            (REQUESTS, WHO | ASKED, 1000, 2000, "1"),
            (PHASE, WHO | {"phase": "Running"}, 1030, 2030, "1"),
        ],
        with_journal=False,
    ),
]
LIFECYCLE_ONLY = [cluster("only_lifecycle", Pod("p", 1000, 2000), with_samples=False)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home.create(tmp_path_factory.mktemp("home"))
    write(home, *BOTH, *SAMPLES_ONLY, *LIFECYCLE_ONLY)
    tables = [
        clusters_table(*BOTH),
        clusters_table(*SAMPLES_ONLY, sources="samples"),
        clusters_table(*LIFECYCLE_ONLY, sources="lifecycle"),
    ]
    rows = [line for one in tables for line in one["clusters.csv"].splitlines()[1:]]
    header = tables[0]["clusters.csv"].splitlines()[0]
    clusters = {"clusters.csv": "\n".join([header, *rows]) + "\n"}
    signed = table(
        "accepted_gaps",
        f"samples_before_the_start,thanos,{text(0)},{text(HOUR)},bill_samples,|,",
        f"samples_after_the_end,thanos,{text(0)},{text(HOUR)},bill_samples,|,",
        f"absent_without_a_gap,thanos,{text(0)},{text(HOUR)},bill_nothing,|,",
        f"two_requests,thanos,{text(0)},{text(HOUR)},bill_samples,|,",
    )
    result = build_period(home, PERIOD, decided(clusters, signed), closed_periods=frozenset())
    assert [(test.name, test.status) for test in result.failed_tests] == []
    return home


def segments(home: Home, cluster_id: str, state: str = "running") -> list[SegmentRow]:
    """Neighbouring pod-hours of one reason joined, in seconds after the start of the period."""
    with connected(home.warehouse_path, read_only=True) as connection:
        rows = connection.execute(
            "select method, method_reason, epoch_us(segment_started_at) // 1000000, "
            "epoch_us(segment_ended_at) // 1000000, uncertainty_seconds "
            "from marts.fct_pod_hours where cluster_id = $cluster and state = $state "
            "order by segment_started_at, segment_ended_at, method_reason",
            {"cluster": cluster_id, "state": state},
        ).fetchall()
    joined: list[SegmentRow] = []
    for method, reason, started, ended, doubt in rows:
        row = (method, reason, started - epoch(0), ended - epoch(0), doubt)
        if joined and joined[-1][:2] == row[:2] and joined[-1][3] == row[2]:
            last = joined.pop()
            row = (method, reason, last[2], row[3], last[4] + doubt)
        joined.append(row)
    return joined


EXPECTED: dict[str, list[SegmentRow]] = {
    "agreed": [("confirmed", "agree", 100, 5000, 0)],
    # The sample due at 1027 is lost; the next one is at 1057.
    "one_scrape_lost": [
        ("confirmed", "agree", 100, 1027, 0),
        ("lifecycle_only", "sample_gap", 1027, 1057, 0),
        ("confirmed", "agree", 1057, 5000, 0),
    ],
    "too_short_to_be_sampled": [("lifecycle_only", "too_short", 1000, 1020, 0)],
    "starts_and_ends_in_one_second": [],
    # The sampling interval of 30 s, the scrape interval of 30 s and 15 s for the clocks: 75 s.
    "just_short_enough": [("lifecycle_only", "too_short", 1000, 1075, 0)],
    "a_second_too_long": [("disputed", "absent", 1000, 1076, 0)],
    "absent_without_a_gap": [("disputed", "absent", 1000, 3000, 0)],
    # The last sample before it is at 877, so the gap begins at 907, when the next one was due.
    "absent_in_a_gap": [("lifecycle_only", "sample_gap", 1000, 3000, 0)],
    "samples_begin_late": [
        ("disputed", "absent", 1000, 1507, 0),
        ("confirmed", "agree", 1507, 3000, 0),
    ],
    "samples_end_early": [
        ("confirmed", "agree", 1000, 1987, 0),
        ("disputed", "absent", 1987, 3000, 0),
    ],
    # Requests continue until 2977: the pod has a gap and not an end.
    "phase_has_a_gap": [
        ("confirmed", "agree", 1000, 1987, 0),
        ("lifecycle_only", "sample_gap", 1987, 3000, 0),
    ],
    "samples_before_the_start": [
        ("disputed", "outside_lifecycle", 817, 1000, 0),
        ("confirmed", "agree", 1000, 3000, 0),
    ],
    "samples_after_the_end": [
        ("confirmed", "agree", 1000, 3000, 0),
        ("disputed", "outside_lifecycle", 3000, 3097, 0),
    ],
    "a_sample_within_the_clocks": [("confirmed", "agree", 1000, 3000, 0)],
    "requests_continue": [("confirmed", "agree", 1000, 3000, 0)],
    "journal_gap_inside_a_lifetime": [("confirmed", "agree", 100, 5000, 0)],
    # The watch covers the time until 2000, samples until 2497; the first one without the pod is at
    # 2527.
    "end_lost_samples_continue": [
        ("confirmed", "agree", 100, 2000, 0),
        ("samples_only", "journal_gap", 2000, 2497, 31),
    ],
    # A journal that watches again would have recorded it.
    "end_lost_samples_outlast_the_gap": [
        ("confirmed", "agree", 100, 2000, 0),
        ("samples_only", "journal_gap", 2000, 3000, 0),
        ("disputed", "outside_lifecycle", 3000, 3997, 0),
    ],
    # It started at 2100, after the sample at 2077 without it, and restarted at 2600: the start that
    # the journal recorded at 3000.
    "start_lost_and_restarted_in_a_gap": [
        ("samples_only", "journal_gap", 2100, 2600, 23),
        ("confirmed", "agree", 2600, 5000, 0),
    ],
    # The container started at 2100, after the sample at 2077 without it.
    "lifetime_inside_a_journal_gap": [("samples_only", "journal_gap", 2100, 2497, 23 + 31)],
    "end_lost_to_both": [
        ("confirmed", "agree", 100, 2000, 0),
        ("missing", "end_unknown", 2000, 2000, 1000),
    ],
    # It ran at 2000, and the sample at 2017 does not show it.
    "end_lost_between_two_samples": [
        ("confirmed", "agree", 100, 2000, 0),
        ("samples_only", "journal_gap", 2000, 2000, 1987 + 31 - 2000),
    ],
    "another_count_in_the_samples": [("disputed", "contradicted", 1000, 2000, 0)],
    "another_namespace_in_the_samples": [("disputed", "contradicted", 1000, 2000, 0)],
    **{one.cluster_id: [("disputed", "contradicted", 1000, 1987, 3 + 31)] for one in CONTRADICTED},
    **{
        one.cluster_id: [("samples_only", "journal_not_expected", 1000, 1987, 3 + 31)]
        for one in CONSISTENT
    },
    "requests_none": [],
    **{
        one.cluster_id: [
            ("samples_only", "journal_not_expected", 1000, 1987, 3 + 31),
            ("disputed", "contradicted", 1027, 1987, 30 + 31),
        ]
        for one in TIMES
    },
    "started_before_it_was_there": [("disputed", "contradicted", 10, 1987, 31)],
    "unknown_to_the_journal": [("disputed", "unknown_uid", 1000, 1987, 3 + 31)],
    "end_without_a_time": [("confirmed", "agree", 100, 2500, 0)],
    "never_started": [],
    "held_first": [("confirmed", "agree", 1000, 2500, 0)],
    "name_used_again": [("confirmed", "agree", 100, 2000, 0)],
    # The sample before 1027 is at 997, and the one after 1987 at 2017.
    "only_samples": [("samples_only", "journal_not_expected", 1000, 1987, 3 + 31)],
    "only_samples_restarted": [("samples_only", "journal_not_expected", 1000, 1987, 3 + 31)],
    # The next sentinel after the gap is at 2317.
    "only_samples_end_in_a_gap": [
        ("samples_only", "journal_not_expected", 1000, 1957, 3 + 2318 - 1957)
    ],
    # It runs at both edges of the window; the first sample is due 7 s after the edge.
    "only_samples_at_both_edges": [("samples_only", "journal_not_expected", 0, 7177, 23)],
    # Requests from 1027 to 1987, phases from 1057 to 2017: either may be right.
    "phases_are_a_scrape_late": [
        ("samples_only", "journal_not_expected", 1057, 1987, (1057 - 997) + (2048 - 1987))
    ],
    "only_lifecycle": [("lifecycle_only", "samples_not_expected", 1000, 2000, 0)],
}


def test_many_ends_at_one_scrape_are_a_gap_until_a_second_query(home: Home) -> None:
    with connected(home.warehouse_path, read_only=True) as connection:
        rows = connection.execute(
            "select method, method_reason, sum(lifecycle_seconds)::bigint "
            "from marts.fct_pod_hours where cluster_id = 'many_end_at_one_scrape' "
            "and pod_name = 'p' group by all order by all"
        ).fetchall()
    assert rows == [("confirmed", "agree", 987), ("lifecycle_only", "sample_gap", 1013)]


@pytest.mark.parametrize("name", EXPECTED)
def test_every_interval_has_its_method(home: Home, name: str) -> None:
    assert segments(home, name) == EXPECTED[name]


def test_every_situation_has_an_expected_result() -> None:
    assert {c.cluster_id for c in [*BOTH, *SAMPLES_ONLY, *LIFECYCLE_ONLY]} == {
        *EXPECTED,
        "many_end_at_one_scrape",
    }


def test_a_contradiction_of_the_api_is_listed_and_changes_nothing(home: Home) -> None:
    with connected(home.warehouse_path, read_only=True) as connection:
        rows = connection.execute(
            "select cluster_id, epoch_us(observed_at) // 1000000, object_uid, contradiction "
            "from marts.fct_contradictions where source = 'kubernetes'"
        ).fetchall()
    assert rows == [("agreed", epoch(3000), "uid-p", "absent_then_seen")]


def test_contradictions_show_both_values(home: Home) -> None:
    with connected(home.warehouse_path, read_only=True) as connection:
        rows = connection.execute(
            "select cluster_id, source, contradiction, before_value, after_value "
            "from marts.fct_contradictions where source <> 'kubernetes' order by all"
        ).fetchall()
    assert rows == [
        ("a_request_of_zero_as_well", "thanos", "requests_differ", "0", "1"),
        ("another_container", "thanos", "scheduler_differs", "2", "1"),
        ("another_count_in_the_samples", "both", "sources_differ", "2", "3"),
        ("another_namespace_in_the_samples", "thanos", "namespaces_differ", "team-a", "team-b"),
        ("fewer_by_its_request", "thanos", "scheduler_differs", "1", "4"),
        ("free_by_its_request", "thanos", "scheduler_differs", "0", "1"),
        (
            "phase_of_one_pod_missing",
            "thanos",
            "phases_missing",
            "960 s of requests",
            "0 s of phases",
        ),
        ("request_of_one_pod_missing", "thanos", "scheduler_differs", "0", "1"),
        (
            "started_before_it_was_there",
            "thanos",
            "starts_differ",
            f"{epoch(10)}",
            f"{epoch(1027)}",
        ),
        ("two_names", "thanos", "pod_names_differ", "p", "q"),
        ("two_namespaces", "thanos", "namespaces_differ", "team-a", "team-b"),
        ("two_nodes", "thanos", "nodes_differ", "n1", "n2"),
        ("two_products", "thanos", "product_labels_differ", "A100-40GB whole", "H100-80GB whole"),
        ("two_requests", "thanos", "requests_differ", "1", "2"),
    ]


def test_contradicted_samples_alone_bill_nothing_until_accepted(
    home: Home,
) -> None:
    for one in CONTRADICTED:
        signed = one.cluster_id == "two_requests"
        billed = 987 if signed else 0
        treatment = "bill_samples" if signed else ""
        found = counted(home, one.cluster_id, "contradicted")
        assert found == (treatment, billed, billed, 0, 987), one.cluster_id
    assert counted(home, "another_count_in_the_samples", "contradicted") == (
        *("", 1000, 1000, 1000, 1000),
    )


def test_held_precedes_running(home: Home) -> None:
    assert segments(home, "held_first", "held") == [("lifecycle_only", "held", 900, 1000, 0)]
    assert segments(home, "start_lost_and_restarted_in_a_gap", "held") == [
        ("lifecycle_only", "held", 1900, 2100, 0)
    ]
    # From 817 on the sources disagree whether it runs.
    assert segments(home, "samples_before_the_start", "held") == [
        ("lifecycle_only", "held", 500, 817, 0)
    ]
    assert segments(home, "never_started", "held") == [("lifecycle_only", "held", 1000, 2500, 0)]


def counted(home: Home, cluster_id: str, reason: str) -> tuple[Any, ...] | None:
    with connected(home.warehouse_path, read_only=True) as connection:
        row: tuple[Any, ...] | None = connection.execute(
            "select treatment, sum(running_seconds)::bigint, sum(billable_seconds)::bigint, "
            "sum(lifecycle_seconds)::bigint, sum(sampled_seconds)::bigint "
            "from marts.fct_pod_hours where cluster_id = $cluster and method_reason = $reason "
            "group by all",
            {"cluster": cluster_id, "reason": reason},
        ).fetchone()
        return row


def test_a_disagreement_counts_the_lifecycle_until_accepted(home: Home) -> None:
    assert counted(home, "samples_end_early", "absent") == ("", 1013, 1013, 1013, 0)
    assert counted(home, "unknown_to_the_journal", "unknown_uid") == ("", 0, 0, 0, 987)


def test_an_accepted_disagreement_is_billed_as_decided(home: Home) -> None:
    assert counted(home, "samples_before_the_start", "outside_lifecycle") == (
        "bill_samples",
        183,
        183,
        0,
        183,
    )
    assert counted(home, "samples_after_the_end", "outside_lifecycle") == (
        "bill_samples",
        97,
        97,
        0,
        97,
    )
    assert counted(home, "absent_without_a_gap", "absent") == ("bill_nothing", 2000, 0, 2000, 0)
