"""Plans for a node's MIG layout, compared with every layout of every card."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from domain.gpu import parse_catalogue
from domain.mig import layouts, parse_profile
from domain.mig.parted import parse_parted_file
from domain.mig.reconfiguration import (
    CardState,
    NodeCannotHold,
    TooManyCards,
    as_entries,
    plan_configuration,
    plan_instances,
)
from warehouse.project import seed_text

GEOMETRIES = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles")).geometries
A100, A30 = GEOMETRIES["a100-40gb"], GEOMETRIES["a30-24gb"]
P1, P2, P3, P4, P7 = map(parse_profile, ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"))


def by_trying_all(geometry, cards, wanted):
    """The fewest (evicted pods, changed cards) over all layouts of all cards."""
    multisets = layouts(geometry, set(wanted)).placeable
    best = None
    for choice in itertools.product([None, *multisets, ()], repeat=len(cards)):
        offered: Counter = Counter()
        evicted: set[str] = set()
        changed = 0
        for card, target in zip(cards, choice, strict=True):
            after = card.instances if target is None else target
            offered.update(dict(after or ()))
            if after != card.instances:
                evicted |= card.pods
                changed += 1
        if all(offered[profile] >= count for profile, count in wanted.items()):
            cost = (len(evicted), changed)
            best = cost if best is None else min(best, cost)
    return best


def random_node(draw: random.Random, geometry, profiles, most_cards):
    multisets = [None, (), *layouts(geometry, profiles).placeable]
    pods = [f"pod-{number}" for number in range(4)]
    return [
        CardState(index, draw.choice(multisets), frozenset(draw.sample(pods, draw.randint(0, 2))))
        for index in range(draw.randint(1, most_cards))
    ]


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_evicts_as_few_pods_as_any_layout(seed: int) -> None:
    draw = random.Random(seed)
    geometry, names = draw.choice([(A100, (P1, P2, P3)), (A30, _names(A30))])
    cards = random_node(draw, geometry, set(names), 2 if geometry is A100 else 3)
    wanted = {name: draw.randint(0, 4) for name in names[:3]}
    expected = by_trying_all(geometry, cards, {n: c for n, c in wanted.items() if c})
    if expected is None:
        with pytest.raises(NodeCannotHold):
            plan_instances(geometry, cards, wanted)
        return
    plan = plan_instances(geometry, cards, wanted)
    assert (len(plan.evicted), len(plan.changed)) == expected
    assert plan.needs_drain == (expected[1] == len(cards)), "every layout changes every card"
    offered = dict(plan.offered_after)
    assert all(offered.get(name, 0) >= count for name, count in wanted.items())
    for card in plan.cards:
        placed = tuple(sorted(Counter(p.profile for p in card.placement).items()))
        assert placed == tuple(card.after or ()), "the proof has exactly the target's instances"


def _names(geometry):
    return tuple(p.profile for p in geometry.profiles if not p.profile.with_attributes)


def test_a_node_with_the_instances_is_unchanged() -> None:
    cards = [CardState(0, ((P1, 7),), frozenset({"a/pod"})), CardState(1, None)]
    plan = plan_instances(A100, cards, {P1: 7})
    assert (plan.evicted, plan.changed, plan.needs_drain) == ((), (), False)
    assert plan.surviving == ((P1, 7),)


def test_a_free_card_is_repartitioned_before_a_card_with_pods() -> None:
    cards = [
        CardState(0, ((P3, 2),), frozenset({"a/train"})),
        CardState(1, ((P7, 1),)),
        CardState(2, ((P1, 7),), frozenset({"b/serve"})),
    ]
    plan = plan_instances(A100, cards, {P1: 7, P2: 1, P3: 3})
    assert [card.index for card in plan.changed] == [1]
    assert dict(plan.cards[1].after or ()) == {P2: 1, P3: 1}
    assert plan.evicted == ()
    # Card 0: two 3g leave 1/7 of the compute slots; card 1: 7 - 2 - 3 of 7, and 8 - 2 - 4 of 8.
    assert str(plan.unsold(after=True).compute) == "3/7"
    assert str(plan.unsold(after=True).memory) == "3/8"  # 1/8 of card 2 and 2/8 of card 1


def test_two_free_cards_are_changed_before_a_card_with_a_pod() -> None:
    """One more 3g fits on card 0, whose pod would be evicted, or on cards 1 and 2 together."""
    free = ((P2, 1), (P3, 1))
    cards = [
        CardState(0, ((P1, 7),), frozenset({"a/pod"})),
        CardState(1, free),
        CardState(2, free),
    ]
    plan = plan_instances(A100, cards, {P2: 2, P3: 3})
    assert plan.evicted == ()
    assert [card.index for card in plan.changed] == [1, 2]


def test_seven_slices_without_a_placement_are_refused() -> None:
    with pytest.raises(NodeCannotHold, match="no layout of these cards offers"):
        plan_instances(A100, [CardState(0, None)], {P3: 2, P1: 1})


def test_compute_instances_are_placed_in_shared_instances() -> None:
    part = parse_profile("1c.3g.20gb")
    plan = plan_instances(A100, [CardState(0, None)], {part: 3, P4: 1})
    assert dict(plan.cards[0].after or ()) == {part: 3, P4: 1}
    assert [str(p) for p in plan.cards[0].placement] == ["4g.20gb@0:4", "3g.20gb@4:4"]


DESIGN = """\
version: v1
mig-configs:
  profil1:
    - devices: 0
      mig-enabled: true
      mig-devices: {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
    - devices: 1
      mig-enabled: true
      mig-devices: {"1g.5gb": 5, "2g.10gb": 1}
"""


def test_a_configuration_evicts_the_pods_of_changed_cards() -> None:
    entries = parse_parted_file(DESIGN).configs["profil1"]
    same = ((P1, 5), (P2, 1))
    cards = [
        CardState(0, None, frozenset({"a/whole"})),
        CardState(1, same, frozenset({"a/kept"})),
        CardState(2, ((P7, 1),), frozenset({"a/not-named"})),
    ]
    plan = plan_configuration(A100, cards, entries)
    assert plan.evicted == ("a/whole",)
    assert [card.changes for card in plan.cards] == [True, False, False]
    assert [card.changes_mode for card in plan.cards] == [True, False, False]
    assert not plan.needs_drain
    assert plan_configuration(A100, cards[:1], entries).needs_drain
    assert plan.surviving == ((P1, 5), (P2, 1), (P7, 1))


def test_the_entries_of_a_plan_reproduce_the_plan() -> None:
    cards = [CardState(0, None), CardState(1, ((P3, 2),)), CardState(2, ((P3, 2),))]
    plan = plan_instances(A100, cards, {P1: 3, P3: 4})
    import yaml

    text = yaml.safe_dump({"version": "v1", "mig-configs": {"custom": as_entries(plan)}})
    again = plan_configuration(A100, cards, parse_parted_file(text).configs["custom"])
    assert again == plan


def test_the_search_is_short_on_a_node_of_sixteen_cards() -> None:
    cards = [CardState(index, ((P1, 7),), frozenset({f"pod-{index % 5}"})) for index in range(16)]
    plan = plan_instances(A100, cards, {P3: 9, P1: 60})
    assert len(plan.changed) == 5


def test_a_plan_for_more_than_16_cards_is_refused() -> None:
    cards = [CardState(index, None) for index in range(17)]
    with pytest.raises(TooManyCards, match="17 cards"):
        plan_instances(A100, cards, {P1: 1})
