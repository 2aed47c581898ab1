"""Scenario files are read strictly, and all problems are reported at once."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
from fractions import Fraction
from pathlib import Path

import pytest

from domain.errors import UnknownName
from fake_gpu.exporters.devices import phases
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.errors import BadScenario, InvalidScenario
from fake_gpu.scenario.load import library, library_text, load_scenario, read_scenario
from fake_gpu.scenario.scalars import parse_duration, parse_share, parse_span, parse_time
from fake_gpu.scenario.schema import MAXIMUM_LEVELS, InvalidScenarioValue
from fake_gpu.scenario.seeds import stream, uuid_of
from fake_gpu.scenario.spec import MAXIMUM_PODS
from fake_gpu.scenario.utilisation import parse_load, quoted_loads
from tests.fleets import T0, check_invariants, cluster_of, loaded
from tests.scenario_page import scenario_page

SMALL = """\
name: small
from: 2026-10-01T00:00:00Z
until: 2026-10-02T00:00:00Z
clusters:
  - name: c
    nodes: [{name: n, product: Tesla-T4, cards: 1}]
"""


def problems(text: str) -> list[tuple[int, str]]:
    with pytest.raises(BadScenario) as raised:
        build_fleet(loaded(text))
    return [(problem.line, problem.seen) for problem in raised.value.problems]


def test_all_problems_are_reported_at_once_with_their_lines() -> None:
    text = """\
name: bad
from: 2026-10-01T00:00:00Z
until: yesterday
clusters:
  - name: c
    nodez: []
    nodes:
      - {name: n, product: Tesla-T4, cards: many}
    workloads:
      - {name: w, kind: Job}
"""
    assert problems(text) == [
        (3, "'yesterday' is not a time"),
        (6, "unknown key `nodez`"),
        (8, "'many' is not a whole number"),
        (10, "`namespace` is missing"),
    ]


def test_an_unknown_key_gets_a_suggestion() -> None:
    with pytest.raises(BadScenario, match="did you mean `nodes`"):
        loaded(SMALL.replace("nodes:", "noes:"))


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("{name: n, product: Tesla-T5, cards: 1}", "unknown product 'Tesla-T5'"),
        ("{name: n, product: Tesla-T4}", "a product without cards, or cards without a product"),
        (
            "{name: n, product: Tesla-T4, cards: 1, mig: {layout: all-1g.5gb}}",
            "Tesla-T4 has no MIG",
        ),
        ("{name: n, product: Tesla-T4, cards: 1, partition: cpx_nps4}", "not AMD"),
        ("{name: n, product: Tesla-T4, cards: 1025}", "1025 cards"),
        ("{name: n, product: Tesla-T4, cards: 1, sharing: {replicas: 1}}", "1 replicas"),
        ("{name: n, name: m}", "occurs twice"),
        ("{name: n, product: Tesla-T4, cards: 1, incidents: [{card: 1, from: +1h}]}", "no card 1"),
        (
            "{name: n, product: NVIDIA-A100-SXM4-40GB, cards: 1,"
            " mig: {layout: {all: {3g.20gb: 2, 1g.5gb: 1}}}}",
            "do not fit on one NVIDIA-A100-SXM4-40GB",
        ),
        (
            "{name: n, product: NVIDIA-A100-SXM4-40GB, cards: 1, mig: {layout: all-9g.5gb}}",
            "no layout 'all-9g.5gb'",
        ),
    ],
)
def test_impossible_hardware_is_refused(written: str, seen: str) -> None:
    text = SMALL.replace("{name: n, product: Tesla-T4, cards: 1}", written)
    assert any(seen in problem for _, problem in problems(text))


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("{name: w, namespace: x, kind: Foo}", "kind Foo without an api"),
        ("{name: w, namespace: x, kind: Deployment, arrivals: {every: 1h}}", "arrivals of a"),
        ("{name: w, namespace: x, kind: Job, arrivals: {}}", "arrivals need `every` or `at`"),
        ("{name: w, namespace: x, kind: Job, arrivals: {every: 0s}}", "without any time"),
        ("{name: w, namespace: x, requests: {gpu: 1}}", "'gpu' is no extended resource"),
        ("{name: w, namespace: x, utilisation: 200}", "'200' is no utilisation"),
        ("{name: w, namespace: x, failures: 2}", "'2' is not a share"),
        (
            "{name: w, namespace: x, kind: Pod, pods: [{created: +2h, started: +1h}]}",
            "its times go backwards",
        ),
        (
            "{name: w, namespace: x, kind: Pod, pods: [{created: +1h, ended: +2h}]}",
            "it ends and never starts",
        ),
        (
            "{name: w, namespace: x, kind: Pod, pods: [{created: +1h, runs: [{from: +2h},"
            " {from: +3h}]}]}",
            "its runs overlap or go backwards",
        ),
    ],
)
def test_impossible_workloads_are_refused(written: str, seen: str) -> None:
    text = SMALL + f"    workloads: [{written}]\n"
    assert any(seen in problem for _, problem in problems(text))


def test_scenarios_beyond_the_limits_are_refused() -> None:
    # From the first of October 2026 to that of October 9999: 7,973 years.
    assert problems(SMALL.replace("2026-10-02", "9999-10-01")) == [(1, "it lasts 2912078 days")]
    read_scenario(SMALL.replace("2026-10-02", "2036-10-01"), "mine.yaml", None)
    busy = "{name: w, namespace: x, kind: Job, replicas: 90, arrivals: {every: 1s..3s}}"
    [(_, seen)] = problems(SMALL + f"    workloads: [{busy}]\n")
    assert seen == f"about 3888000 pods come, and {MAXIMUM_PODS} can be simulated"


def test_faults_are_read_strictly() -> None:
    text = SMALL + (
        "faults:\n"
        "  - {fault: dropped_scrape}\n"
        "  - {fault: dropped_scrapes, share: 1.5}\n"
        "  - {fault: dropped_scrapes, shares: 10%}\n"
    )
    assert problems(text) == [
        (8, "unknown fault 'dropped_scrape'"),
        (9, "'1.5' is not a share"),
        (10, "dropped_scrapes has no `shares`"),
    ]
    assert problems(SMALL + "faults:\n  - {fault: html_login, cluster: d}\n") == [
        (8, "no cluster 'd'")
    ]


def test_faults_have_their_defaults_seed_and_time() -> None:
    text = SMALL + (
        "faults:\n"
        "  - {fault: dropped_scrapes, cluster: c, from: +1h, until: +2h, share: 20%, seed: 5}\n"
        "  - {fault: dropped_scrapes}\n"
    )
    first, second = build_fleet(loaded(text)).faults
    assert first.parameters == {"job": "", "share": Fraction(1, 5)}
    assert (first.from_at, first.until_at, first.seed) == (T0 + 3600, T0 + 7200, 5)
    assert (second.from_at, second.until_at) == (T0, T0 + 86_400)
    assert second.cluster_id == ""
    assert (first.fault_id, second.fault_id) == ("dropped_scrapes#0", "dropped_scrapes#1")


@pytest.mark.parametrize("before", ["name: ", "mig-strategy: mixed\nnodes: "])
def test_nesting_too_deep_for_the_parser_is_refused_with_its_line(before: str) -> None:
    """In a scenario, and in the design document's format."""
    [(line, seen)] = problems(f"{before}{'[' * 100_000}")
    assert (line, seen) == (before.count("\n") + 1, f"more than {MAXIMUM_LEVELS} levels deep")


def test_syntax_errors_empty_files_and_bombs_are_refused() -> None:
    assert problems("name: [")[0][1].startswith("not YAML")
    assert problems("") == [(0, "the file is empty")]


def test_a_file_with_exponential_anchors_is_refused() -> None:
    many = ",".join(["*n"] * 999)
    clusters = ",".join(["*c"] * 999)
    text = (
        "name: bomb\nfrom: 2026-10-01\nuntil: 2026-10-02\nclusters:\n"
        f"  [&c {{name: c, namespaces: [&n {{name: x}},{many}]}},{clusters}]\n"
    )
    with pytest.raises(BadScenario, match="more than 500000 values"):
        loaded(text)


def test_yaml_scalars_have_no_implicit_types() -> None:
    text = SMALL.replace("name: c", "name: no\n    kubernetes: 1.30")
    cluster = loaded(text).scenario.clusters[0]
    assert (cluster.name, cluster.kubernetes) == ("no", "1.30")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("5m", 300), ("2h30m", 9000), ("1d1s", 86_401)]
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m5", "5 m", "-5m", "1.5h", "5m2h"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(InvalidScenarioValue):
        parse_duration(text)


def test_times_may_be_relative_to_the_start() -> None:
    assert parse_time("+1d2h", T0) == T0 + 26 * 3600
    assert parse_time("2026-10-01", None) == T0
    with pytest.raises(InvalidScenarioValue):
        parse_time("+1h", None)


def test_shares_are_exact() -> None:
    assert parse_share("0.1") == parse_share("10%") == parse_share("1/10") == Fraction(1, 10)


def test_durations_have_the_configured_distribution() -> None:
    draw = stream(1, "spans")
    assert {parse_span("40m").draw(draw) for _ in range(5)} == {2400}
    even = [parse_span("10s..20s").draw(draw) for _ in range(300)]
    assert (min(even), max(even)) == (10, 20)
    exponential = sorted(parse_span("~1h").draw(draw) for _ in range(999))
    # The median of an exponential is its mean × ln 2 = 2495 s.
    assert 2250 < exponential[499] < 2750
    lognormal = sorted(parse_span("30m~1.0").draw(draw) for _ in range(999))
    assert 1600 < lognormal[499] < 2000
    # A tenth is above median × e^1.2816 = 6484 s.
    assert 5400 < lognormal[899] < 7800


def test_random_values_follow_from_their_hash() -> None:
    """Calculated from the definition again, because a change here would change every fleet."""
    digest = hashlib.sha256(hashlib.sha256(b"1:71:a").digest() + bytes(8)).digest()
    words = [int.from_bytes(digest[n : n + 8], "big") for n in (0, 8, 16, 24)]
    draw = stream(7, "a")
    assert [draw.word() for _ in range(4)] == words
    assert stream(7, "a").below(1000) == words[0] * 1000 // 2**64
    assert stream(7, "a").exponential(10**9) == pytest.approx(-math.log(words[0] / 2**64) * 10**9)
    assert stream(7, "a", "b").word() != stream(7, "ab").word()
    assert stream(7, "1", "2").word() != stream(71, "2").word()
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", uuid_of(7, "a")
    )


# --- utilisation --------------------------------------------------------------------------------


LITERAL = """\
{
    {
        time: "1h"
        utilization: 80
    },
    {
        time: "1h"
        utilization: 0
    }
    repeat: 5
}
"""


def test_the_design_documents_notation_is_read_unchanged() -> None:
    load = parse_load(LITERAL).draw(stream(1))
    assert load.steps == ((3600, 80), (3600, 0))
    assert load.repeat == 5
    assert [load.pct_at(t) for t in (0, 3599, 3600, 7200, 35_999, 36_000)] == [80, 80, 0, 80, 0, 0]
    assert sum(load.pct_at(second) for second in range(0, 15 * 3600, 60)) == 5 * 60 * 80


def bare(written: str) -> str:
    """A scenario with the notation unchanged, without quotes and without `|`."""
    return SMALL + (
        "    workloads:\n"
        "      - name: w\n"
        "        namespace: x\n"
        f"        utilisation: {written}\n"
        "        requests: {nvidia.com/gpus: one}\n"
    )


INDENTED = LITERAL.strip().replace("\n", "\n          ")


@pytest.mark.parametrize(
    "written",
    [
        LITERAL.strip(),
        f"\n          {INDENTED}",
        INDENTED.replace("},", "},  # the first half"),
        "{{time: \"1h\" utilization: 80}, {time: '1h' utilization: 0} repeat: 5}",
    ],
)
def test_the_design_documents_notation_needs_no_quotes(written: str) -> None:
    """Also with its braces at the left edge; problems below it keep their line."""
    text = bare(written)
    line = text.splitlines().index("        requests: {nvidia.com/gpus: one}") + 1
    assert problems(text) == [(line, "'one' is not a whole number")]
    [cluster] = loaded(text.replace("nvidia.com/gpus: one", "nvidia.com/gpu: 1")).scenario.clusters
    assert cluster.workloads[0].utilisation == parse_load(LITERAL)


def test_unquoted_notations_may_follow_each_other() -> None:
    part = '{{time: "1h" utilization: %s} repeat: 1}'
    cards = ", ".join(f"{{card: {n}, utilisation: {part % n}}}" for n in range(2))
    text = SMALL + (
        "    workloads:\n"
        f"      - {{name: w, namespace: x, kind: Pod, utilisation: {part % 7},\n"
        f"         pods: [{{created: +1h, card_loads: [{cards}]}}]}}\n"
        f"story: |\n  Of utilisation: {part % 9} nobody knows.\n"
    )
    [workload] = loaded(text).scenario.clusters[0].workloads
    loads = [workload.utilisation, *(load.utilisation for load in workload.pods[0].card_loads)]
    assert [load.steps for load in loads] == [((3600, pct, pct),) for pct in (7, 0, 1)]


@pytest.mark.parametrize(
    "written",
    ['{ { time: "1h" utilization: 80 }', "{ { time: 1h utilization: 80 } } }"],
)
def test_an_unterminated_notation_is_no_yaml(written: str) -> None:
    [(_, seen)] = problems(bare(written))
    assert seen.startswith("not YAML")


def test_comments_stay_comments() -> None:
    text = SMALL + "# utilisation: { { time: 1h\n# utilisation: { {time: 1h utilization: 5} }\n"
    assert loaded(text).scenario == loaded(SMALL).scenario


def test_other_phases_are_unchanged() -> None:
    """YAML's own notation, quoted or in a block, is not changed."""
    for text in (
        "utilisation: {phases: [{time: 1h, utilisation: 80}], repeat: 5}",
        "utilisation: [{time: 1h, utilisation: 80}]",
        f"utilisation: |\n{LITERAL}",
        "requests: {utilisation: 1}",
    ):
        assert quoted_loads(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("80", (((3600, 80),), None, 0)),
        ("idle", (((3600, 0),), None, 0)),
        ("busy", (((3600, 100),), None, 0)),
        ("burst", (((300, 95), (1500, 5)), None, 0)),
        ("[{time: 10m, utilisation: 50}]", (((600, 50),), None, 0)),
        ('{"phases": [{"time": "10m", "utilisation": 50}], "repeat": 2}', (((600, 50),), 2, 0)),
        ("{phases: [{time: 1h, utilisation: 5}], repeat: 1, then: hold}", (((3600, 5),), 1, 5)),
    ],
)
def test_other_notations(text: str, expected: object) -> None:
    load = parse_load(text).draw(stream(1))
    assert (load.steps, load.repeat, load.after_pct) == expected


def test_a_range_is_drawn_for_each_minute_and_includes_its_ends() -> None:
    load = parse_load("10-12").draw(stream(3))
    assert len(load.steps) == 60
    assert {pct for _, pct in load.steps} == {10, 11, 12}


@pytest.mark.parametrize("text", ["", "101", "-5", "30-10", "{", "{a: 1}", "[]", "{repeat: 0}"])
def test_invalid_utilisation_is_refused(text: str) -> None:
    with pytest.raises(InvalidScenarioValue):
        parse_load(text)


def test_phases_of_a_load_adjoin_and_add_up_to_its_seconds() -> None:
    load = parse_load("[{time: 7m, utilisation: 90}, {time: 13m, utilisation: 10}]").draw(stream(1))
    steps = list(phases(load, 100, 5000))
    assert steps[0][0] == 100
    assert steps[-1][1] == 5000
    assert all(a[1] == b[0] for a, b in itertools.pairwise(steps))
    total = sum((until - at) * pct for at, until, pct in steps)
    assert total == sum(load.pct_at(t) for t in range(100, 5000))


# --- layouts ------------------------------------------------------------------------------------


def test_mig_parted_files_name_layouts(tmp_path: Path) -> None:
    (tmp_path / "mig.yaml").write_text(
        """\
version: v1
mig-configs:
  halves:
    - device-filter: "0x20B010DE"
      devices: [0]
      mig-enabled: true
      mig-devices: {3g.20gb: 2}
    - devices: [1]
      mig-enabled: false
"""
    )
    text = SMALL.replace(
        "{name: n, product: Tesla-T4, cards: 1}",
        "{name: n, product: NVIDIA-A100-SXM4-40GB, cards: 2, mig: {layout: halves}}",
    )
    read = read_scenario(text + "mig_configs: mig.yaml\n", "test.yaml", tmp_path)
    state = build_fleet(read).clusters[0].nodes[0].states[0]
    assert dict(state.capacity) == {"nvidia.com/gpu": 1, "nvidia.com/mig-3g.20gb": 2}
    assert state.labels["nvidia.com/mig.config"] == "halves"


def test_the_balanced_layout_is_two_one_one() -> None:
    cluster = cluster_of(
        "    nodes: [{name: n, product: NVIDIA-H100-80GB-HBM3, cards: 1,"
        " mig: {layout: all-balanced}}]"
    )
    assert dict(cluster.nodes[0].states[0].capacity) == {
        "nvidia.com/gpu": 0,
        "nvidia.com/mig-1g.10gb": 2,
        "nvidia.com/mig-2g.20gb": 1,
        "nvidia.com/mig-3g.40gb": 1,
    }


# --- finding scenarios --------------------------------------------------------------------------


def test_an_unknown_name_lists_the_library() -> None:
    with pytest.raises(UnknownName, match="thin_line"):
        load_scenario("thick_line")


def test_openb_without_its_files_shows_where_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(InvalidScenario, match="GPU_LEDGER_OPENB"):
        load_scenario("openb", data=tmp_path)


def test_openb_without_a_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_LEDGER_OPENB", raising=False)
    with pytest.raises(InvalidScenario) as raised:
        load_scenario("openb")
    assert raised.value.seen == "no folder was given"


@pytest.mark.parametrize("name", [n for n in library() if n != "openb"])
def test_every_scenario_of_the_library_can_be_simulated(name: str) -> None:
    read = load_scenario(name)
    assert read.scenario.name == name
    assert read.scenario.story.strip().endswith(".")
    for cluster in build_fleet(read).clusters:
        check_invariants(cluster)


def test_the_reference_is_generated_from_the_schema() -> None:
    """To rewrite the page after an intended change, run GPU_LEDGER_WRITE_GOLDEN=1 pytest on this
    file and review the difference.
    """
    page = Path(__file__).parents[2] / "docs" / "reference" / "scenario-file.md"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        page.write_text(scenario_page(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == scenario_page()


def test_the_reference_names_every_key_of_the_demo() -> None:
    import yaml

    own = ("labels", "requests", "layout", "hard", "annotations", "node_selector", "utilisation")
    keys: set[str] = set()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            keys.update(value)
            for name, inner in value.items():
                if name not in own:
                    walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(yaml.safe_load(library_text("demo")))
    page = scenario_page()
    assert len(keys) > 40
    assert sorted(key for key in keys if f"`{key}`" not in page) == ["fault"]


def test_the_how_to_works_as_documented() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "a-fake-cluster-of-your-own.md"
    [fleet_part, faults_part] = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    fleet = build_fleet(loaded(fleet_part + faults_part))
    check_invariants(fleet.clusters[0])
    assert {p.namespace for p in fleet.pods} == {"team-red", "team-blue"}
    assert len(fleet.faults) == 3
    assert fleet.fired == {"card_unhealthy#0": 1}


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("{fault: namespace_recreated}", "namespace_recreated needs `namespace`"),
        ("{fault: card_unhealthy, mode: tired}", "mode: 'tired'"),
        ("{fault: dropped_scrapes, from: +2h, until: +1h}", "ends before it starts"),
    ],
)
def test_impossible_faults_are_refused(fault: str, seen: str) -> None:
    assert [(line, seen in told) for line, told in problems(SMALL + f"faults:\n  - {fault}\n")] == [
        (8, True)
    ]
