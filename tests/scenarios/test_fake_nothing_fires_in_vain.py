"""A fault that is aimed at nothing, or at a time that nobody lives through, is never counted.

Put here: every fault of the catalogue, aimed wrongly, before the client of the scenario in which
all of them fire (`test_fake_everything_fires`).
Not here: what each fault does to an answer (the tests of the views).

A fault that is new is in it at once: its time is put behind the scenario's end, its targets are
taken away, its share is made nothing. A parameter that is new has to say which of these it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import pytest

from fake_gpu.clock import driven
from fake_gpu.faults.catalogue import CATALOGUE
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import OPENB, library, load_scenario
from fake_gpu.scenario.spec import FaultSpec, Scenario
from fake_gpu.serve import serve, start_of
from tests.scenarios.test_fake_everything_fires import ask, stops, watching

# Parameters that say whom a fault is about, with a value that is about nobody.
NOBODY: Mapping[str, object] = {
    "card": 99,
    "job": "nobody",
    "metric": "nobody",
    "namespace": "nobody",
    "node": "nobody",
    "pod": "nobody",
    "replica": 99,
    "resource": "nobodies",
    "share": Fraction(0),
}
# Parameters that say what becomes of it. Some have a value by which nothing does, below.
EFFECTS = {
    "as_cluster", "attacker", "back", "delay", "errors_for", "every", "gpus", "grace", "interval",
    "label", "layout", "lookback", "mode", "pause", "pct", "receivers", "requests", "resolution",
    "retry_after", "second_job", "seconds", "series", "takes", "to", "values", "victim",
    "warns_for", "whatever_is_asked", "xid",
}  # fmt: skip
NO_EFFECT: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("clock_skew", {"seconds": 0}),
    ("forged_series", {"gpus": 0}),
    ("label_edited", {"label": "kubernetes.io/metadata.name", "to": "chat"}),
    ("label_renamed", {"label": "nobody"}),
    ("late_arrival", {"delay": 0}),
    ("metric_renamed", {"to": "kube_pod_status_phase"}),
    ("shared_external_labels", {"as_cluster": "three"}),
    ("stowaway", {"pct": 0}),
    ("truncated_result", {"series": 1_000_000}),
)
LATER_SECONDS = 88 * 3600


def test_every_parameter_is_a_target_or_an_effect() -> None:
    parameters = {p.name for kind in CATALOGUE.values() for p in kind.parameters}
    assert not set(NOBODY) & EFFECTS
    assert parameters == {*NOBODY, *EFFECTS}


def aimed_wrongly(scenario: Scenario) -> Iterator[tuple[str, FaultSpec]]:
    """Every line of the scenario in every wrong way; as it is, it fires."""
    for spec in scenario.faults:
        from_at, until_at = scenario.until + LATER_SECONDS, scenario.until + LATER_SECONDS + 3600
        yield f"{spec.kind} later", replace(spec, from_at=from_at, until_at=until_at)
        for parameter in CATALOGUE[spec.kind].parameters:
            wrong = {parameter.name: NOBODY.get(parameter.name)}
            if parameter.name in NOBODY:
                name = f"{spec.kind} {parameter.name}"
                yield name, replace(spec, parameters={**spec.parameters, **wrong})
        for kind, effect in NO_EFFECT:
            if kind == spec.kind:
                name = f"{kind} without effect"
                yield name, replace(spec, parameters={**spec.parameters, **effect})
        if spec.kind == "rbac_lost":
            hiding = {**spec.parameters, "mode": "fewer", "namespace": "nobody"}
            yield f"{spec.kind} hides nobody", replace(spec, parameters=hiding)


LOADED = load_scenario("everything_at_once")
WRONG = dict(aimed_wrongly(LOADED.scenario))


@pytest.fixture(scope="module")
def counts() -> dict[str, int]:
    """How often each of them was counted, by its name."""
    right = build_fleet(LOADED)
    wrong = replace(LOADED, scenario=replace(LOADED.scenario, faults=tuple(WRONG.values())))
    fleet = build_fleet(wrong)
    with serve(wrong, driven(start_of(fleet))) as running:
        with watching(running) as client:
            for when in stops(right):
                running.advance_to(when)
                ask(running, client, when)
        ids = [fault.fault_id for fault in fleet.faults]
        return {name: running.ledger.count(i) for name, i in zip(WRONG, ids, strict=True)}


@pytest.mark.deep
@pytest.mark.parametrize("name", WRONG)
def test_a_fault_that_is_aimed_at_nothing_is_never_counted(
    name: str, counts: Mapping[str, int]
) -> None:
    assert counts[name] == 0


def test_before_anybody_asks_only_what_really_happens_is_counted() -> None:
    fleet = build_fleet(LOADED)
    with serve(LOADED, driven(start_of(fleet))) as running:
        kinds = {fault.fault_id: CATALOGUE[fault.kind] for fault in fleet.faults}
        counted = {kinds[fault_id].side for fault_id in running.ledger.counts()}
        assert counted == {"fleet"}


@pytest.mark.parametrize("name", [name for name in library() if name != OPENB])
def test_what_a_story_of_the_library_says_does_happen(name: str) -> None:
    fleet = build_fleet(load_scenario(name))
    real = [fault for fault in fleet.faults if CATALOGUE[fault.kind].side == "fleet"]
    assert [fault.fault_id for fault in real if not fleet.fired.get(fault.fault_id)] == []


def test_every_fault_is_aimed_wrongly_in_some_way() -> None:
    assert {name.split()[0] for name in WRONG} == set(CATALOGUE)
