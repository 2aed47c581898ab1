"""A fault without a target, or at a time outside the scenario, is never counted.

Put here: every fault of the catalogue with a wrong target or time, for the client of the scenario
with all faults (`test_fake_every_fault`).
Not here: the effect of each fault on a response (the tests of the views).

New faults are included automatically: the time is moved behind the scenario's end, the targets are
removed, the share is set to zero. A new parameter must be listed below as a target or as an effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import pytest

from fake_gpu.clock import driven, epoch
from fake_gpu.faults.fault_catalogue import CATALOGUE
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import OPENB, library, load_scenario
from fake_gpu.scenario.spec import FaultSpec, Scenario
from fake_gpu.serve import serve
from tests.scenarios.test_fake_every_fault import ask, stops, watching

# Parameters that name a target, with a value that matches none.
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
# Parameters that name an effect. Some have a value without an effect, below.
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
    ("unaccounted_process", {"pct": 0}),
    ("truncated_result", {"series": 1_000_000}),
)
LATER_SECONDS = 88 * 3600


def test_every_parameter_is_a_target_or_an_effect() -> None:
    parameters = {p.name for kind in CATALOGUE.values() for p in kind.parameters}
    assert not set(NOBODY) & EFFECTS
    assert parameters == {*NOBODY, *EFFECTS}


def aimed_wrongly(scenario: Scenario) -> Iterator[tuple[str, FaultSpec]]:
    """Every line of the scenario with every wrong target or time; unchanged, each line fires."""
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
    """The number of occurrences of each fault, by its name."""
    right = build_fleet(LOADED)
    wrong = replace(LOADED, scenario=replace(LOADED.scenario, faults=tuple(WRONG.values())))
    fleet = build_fleet(wrong)
    with serve(wrong, driven(epoch(fleet.started_at))) as running:
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


def test_only_faults_of_the_fleet_are_counted_before_the_first_query() -> None:
    fleet = build_fleet(LOADED)
    with serve(LOADED, driven(epoch(fleet.started_at))) as running:
        kinds = {fault.fault_id: CATALOGUE[fault.kind] for fault in fleet.faults}
        counted = {kinds[fault_id].side for fault_id in running.ledger.counts()}
        assert counted == {"fleet"}


@pytest.mark.parametrize("name", [name for name in library() if name != OPENB])
def test_events_in_library_scenarios_occur(name: str) -> None:
    fleet = build_fleet(load_scenario(name))
    real = [fault for fault in fleet.faults if CATALOGUE[fault.kind].side == "fleet"]
    assert [fault.fault_id for fault in real if not fleet.fired.get(fault.fault_id)] == []


def test_every_fault_has_a_variant_without_a_target() -> None:
    assert {name.split()[0] for name in WRONG} == set(CATALOGUE)
