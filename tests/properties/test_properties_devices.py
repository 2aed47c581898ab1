"""Step functions of devices against their values at every single second."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fake_gpu.exporters.devices import NodeUse, phases
from fake_gpu.fleet.model import Utilisation
from tests.small_fleets import MIDNIGHT, node, pod

PROFILES = st.builds(
    Utilisation,
    st.lists(
        st.tuples(st.integers(1, 50), st.sampled_from([0, 10, 55, 100])), min_size=1, max_size=5
    ).map(tuple),
    st.one_of(st.none(), st.integers(1, 4)),
    st.sampled_from([0, 10, 100]),
)


@given(PROFILES, st.integers(0, 300), st.integers(1, 300))
def test_phases_equal_the_profile_at_every_second(
    profile: Utilisation, start: int, length: int
) -> None:
    found = list(phases(profile, start, start + length))
    seconds = [pct for from_at, until, pct in found for _ in range(from_at, until)]
    assert seconds == [profile.pct_at(second) for second in range(start, start + length)]
    # Adjacent steps, and never two equal ones in sequence.
    for (_, until, before), (from_at, _, after) in itertools.pairwise(found):
        assert until == from_at
        assert before != after


LIVES = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 200), PROFILES), min_size=1, max_size=4
)


@given(LIVES, st.integers(0, 250), st.integers(1, 250))
def test_shared_cards_have_the_sum_of_their_pods_at_each_second(
    lives: list[tuple[int, int, Utilisation]], low: int, length: int
) -> None:
    one = node("node-a", cards=1)
    shared = replace(one.devices[0], makeup="replica", replica_count=4)
    one = replace(one, devices=(shared,))
    pods = [
        replace(
            pod(f"p{number}", created=start, scheduled=start, started=start + 2,
                ended=start + 2 + length_, on=one, utilisation=profile),
            uid=f"uid-{number}",
        )
        for number, (start, length_, profile) in enumerate(lives)
    ]  # fmt: skip
    use = NodeUse(one, pods)
    steps = use.steps(use.entities[0], MIDNIGHT + low, MIDNIGHT + low + length)
    for step in steps:
        for at in range(step.from_at, step.until_at):
            second = at - MIDNIGHT
            busy = sum(
                profile.pct_at(second - start - 2)
                for start, length_, profile in lives
                if start + 2 <= second < start + 2 + length_
            )
            holders = sum(start + 1 <= second < start + 2 + length_ for start, length_, _ in lives)
            assert (step.pct, len(step.holders)) == (min(busy, 100), holders)
    assert sum(step.until_at - step.from_at for step in steps) == length
    coarse = use.steps(use.entities[0], MIDNIGHT + low, MIDNIGHT + low + length, loads=False)
    assert {id(h.pod) for step in coarse for h in step.holders} == {
        id(h.pod) for step in steps for h in step.holders
    }


@given(LIVES, st.lists(st.integers(0, 500), min_size=1, max_size=4))
def test_energy_is_the_sum_of_seconds_after_any_earlier_query(
    lives: list[tuple[int, int, Utilisation]], asked: list[int]
) -> None:
    one = node("node-a", cards=1)
    shared = replace(one.devices[0], makeup="replica", replica_count=4)
    one = replace(one, devices=(shared,), created_at=MIDNIGHT)
    pods = [
        pod(f"p{n}", created=start, scheduled=start, started=start + 2, ended=start + 2 + length,
            on=one, utilisation=profile)
        for n, (start, length, profile) in enumerate(lives)
    ]  # fmt: skip
    use = NodeUse(one, pods)
    card = one.cards[0]
    for at in asked:
        milliwatts = 0
        for second in range(at):
            busy = sum(
                profile.pct_at(second - start - 2)
                for start, length, profile in lives
                if start + 2 <= second < start + 2 + length
            )
            milliwatts += 50_000 + 3_500 * min(busy, 100)
        assert use.microjoules_at(card, MIDNIGHT + at) == milliwatts * 1000
