"""A change of the MIG layout of one node: the cards to change and the pods to evict.

Put here: the choice of cards and layouts with the fewest evictions, and the resulting plan.
Not here: reading nodes and pods, and commands for people (`orchestration.cli.mig_plan`).

mig-parted compares each card's instances with the wanted ones. It leaves a card alone if they are
equal; else it deletes all instances of the card and creates the wanted ones. So an instance
remains if and only if its card does not change, and a pod is evicted if it holds any part of a card
that changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from domain.errors import CheckFailed, WrongUse
from domain.mig.geometry import WHOLE, Geometry, Share
from domain.mig.layouts import Instances, Layout, layouts
from domain.mig.parted import NOTHING, PartedEntry, sold_share
from domain.mig.placing import PlacedLayout, place
from domain.mig.profile import MigProfile

MAX_CARDS = 16
"""Of one node: all subsets of the cards are compared, 65,536 for 16 cards in half a second."""

Counts = Mapping[MigProfile, int]


class NodeCannotHold(CheckFailed):
    """Instances that no layout of a node's cards holds."""

    code = "MIG-002"

    def __init__(self, cards: int, geometry: str, wanted: str, reason: str = "") -> None:
        super().__init__(
            where=f"{cards} card{'s' if cards != 1 else ''} of {geometry}",
            seen=reason or f"no layout of these cards offers {wanted}",
            why="mig-parted would try every order, fail, and leave the cards without instances",
            remedy="request fewer instances; `gpu-ledger mig layouts PRODUCT` lists the layouts "
            "of a card",
        )


class TooManyCards(CheckFailed):
    """A node with more cards than the plan can compare."""

    code = "MIG-002"

    def __init__(self, cards: int) -> None:
        super().__init__(
            where="the plan of one node",
            seen=f"{cards} cards, and at most {MAX_CARDS} can be compared",
            why="all subsets of the cards are compared for the fewest evictions",
            remedy="write the layout of each card into a mig-parted file, and give --config FILE "
            "and --profile",
        )


class LayoutUnknown(WrongUse):
    """The present instances of the cards of a node are not known."""

    code = "MIG-003"

    def __init__(self, node: str, problem: str) -> None:
        super().__init__(
            where=f"the MIG layout of node {node}",
            seen=problem,
            why="without the present layout it is not known which instances and pods survive",
            remedy="pass the output of the node's dcgm-exporter (--metrics FILE) or the mig-parted "
            "file whose configuration is applied (--config FILE)",
        )


@dataclass(frozen=True, slots=True)
class CardState:
    """A card now: its instances (None: MIG is disabled) and the pods that hold any part of it."""

    index: int
    instances: Instances | None
    pods: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CardTarget:
    """A card afterwards; equal to the present state if it does not change."""

    index: int
    before: Instances | None
    after: Instances | None
    placement: Layout  # of `after`, in the order of creation

    @property
    def changes(self) -> bool:
        return self.before != self.after

    @property
    def changes_mode(self) -> bool:
        """Whether MIG is enabled or disabled, for which the card is reset."""
        return (self.before is None) != (self.after is None)


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """The plan for one node."""

    geometry: Geometry
    cards: tuple[CardTarget, ...]
    evicted: tuple[str, ...]  # pods, sorted

    @property
    def changed(self) -> tuple[CardTarget, ...]:
        return tuple(card for card in self.cards if card.changes)

    @property
    def surviving(self) -> Instances:
        """The instances of cards that do not change; they keep their UUIDs and their pods."""
        return _total(card.before for card in self.cards if not card.changes)

    @property
    def needs_drain(self) -> bool:
        """Whether every card is affected, so that the node must be drained."""
        return bool(self.changed) and len(self.changed) == len(self.cards)

    @property
    def offered_after(self) -> Instances:
        return _total(card.after for card in self.cards)

    def unsold(self, *, after: bool) -> Share:
        """The part of the cards with MIG that no instance covers, in cards."""
        total = NOTHING
        for card in self.cards:
            instances = card.after if after else card.before
            if instances is not None:
                sold = sold_share(self.geometry, dict(instances))
                left = Share(WHOLE.compute - sold.compute, WHOLE.memory - sold.memory)
                total = total + left
        return total


def plan_configuration(
    geometry: Geometry,
    cards: Sequence[CardState],
    entries: Sequence[PartedEntry],
    pci_device_ids: frozenset[str] = frozenset(),
) -> Reconfiguration:
    """The plan for one configuration of mig-parted; the last matching entry of a card applies.

    Raises if an entry has instances that no layout of a card offers.
    """
    targets = []
    for card in cards:
        entry = _entry_for(card.index, entries, pci_device_ids)
        if entry is None:
            targets.append(_target(geometry, card, card.instances))
        elif not entry.mig_enabled:
            targets.append(_target(geometry, card, None))
        else:
            wanted = {profile: count for profile, count in entry.mig_devices.items() if count}
            targets.append(_target(geometry, card, _canonical(geometry, wanted)))
    return _plan(geometry, cards, targets)


def plan_instances(
    geometry: Geometry, cards: Sequence[CardState], wanted: Counts
) -> Reconfiguration:
    """The plan after which the node offers at least these instances, held or free, in total.

    It minimises, in this order, the evicted pods, the changed cards and the card indices.
    """
    need = dict(_canonical(geometry, {p: count for p, count in wanted.items() if count}))
    packer = _Packer(geometry, tuple(sorted(need)))
    for changed in _by_evictions(cards):
        unchanged = (card.instances for card in cards if card.index not in changed)
        there = dict(_total(unchanged))
        missing = {
            p: count - there.get(p, 0) for p, count in need.items() if count > there.get(p, 0)
        }
        packed = packer.pack(missing, len(changed))
        if packed is None:
            continue
        new = dict(zip(changed, packed, strict=True))
        targets = [_target(geometry, card, new.get(card.index, card.instances)) for card in cards]
        return _plan(geometry, cards, targets)
    asked = ", ".join(f"{count} × {profile}" for profile, count in sorted(need.items()))
    raise NodeCannotHold(len(cards), geometry.name, asked)


def as_entries(plan: Reconfiguration) -> list[dict[str, object]]:
    """The plan as entries of a mig-parted configuration, one for each distinct layout."""
    groups: dict[Instances | None, list[int]] = {}
    for card in plan.cards:
        groups.setdefault(card.after, []).append(card.index)
    return [
        {"devices": indices, "mig-enabled": False}
        if instances is None
        else {
            "devices": indices,
            "mig-enabled": True,
            "mig-devices": {str(profile): count for profile, count in instances},
        }
        for instances, indices in groups.items()
    ]


def _entry_for(
    index: int, entries: Sequence[PartedEntry], pci_device_ids: frozenset[str]
) -> PartedEntry | None:
    found = None
    for entry in entries:
        is_named = entry.devices is None or index in entry.devices
        if is_named and (not entry.device_filter or entry.is_for(pci_device_ids)):
            found = entry
    return found


def _canonical(geometry: Geometry, counts: Counts) -> Instances:
    """The counts by the geometry's canonical profile names; unknown profiles are unchanged."""
    named: Counter[MigProfile] = Counter()
    for profile, count in counts.items():
        named[geometry.canonical(profile) or profile] += count
    return tuple(sorted(named.items()))


def _target(geometry: Geometry, card: CardState, after: Instances | None) -> CardTarget:
    placed = place(geometry, dict(after or ()))
    if not isinstance(placed, PlacedLayout):
        raise NodeCannotHold(
            1, geometry.name, _listed(after or ()), f"card {card.index}: {placed.reason}"
        )
    return CardTarget(card.index, card.instances, after, placed.order)


def _plan(
    geometry: Geometry, cards: Sequence[CardState], targets: Sequence[CardTarget]
) -> Reconfiguration:
    changed = {target.index for target in targets if target.changes}
    evicted = {pod for card in cards if card.index in changed for pod in card.pods}
    return Reconfiguration(geometry, tuple(targets), tuple(sorted(evicted)))


def _by_evictions(cards: Sequence[CardState]) -> Iterator[tuple[int, ...]]:
    """All sets of cards, ordered by evicted pods, then by size."""
    if len(cards) > MAX_CARDS:
        raise TooManyCards(len(cards))
    pods = {card.index: card.pods for card in cards}
    subsets = [
        subset for size in range(len(cards) + 1) for subset in combinations(sorted(pods), size)
    ]

    def cost(subset: tuple[int, ...]) -> tuple[int, int]:
        evicted: frozenset[str] = frozenset().union(*(pods[index] for index in subset))
        return len(evicted), len(subset)

    yield from sorted(subsets, key=cost)  # stable: ties keep card order


class _Packer:
    """Finds layouts of empty cards with exactly the wanted instances."""

    def __init__(self, geometry: Geometry, profiles: tuple[MigProfile, ...]) -> None:
        self._geometry = geometry
        instances = {p.instance for p in profiles if geometry.canonical(p) is not None}
        # Every set of GPU instances; compute instances are laid into them.
        self._options = [dict(found) for found in layouts(geometry, instances).placeable]
        self._whole = all(profile.is_whole_instance for profile in profiles)
        self._known: dict[tuple[Instances, int], tuple[Instances, ...] | None] = {}

    def pack(self, missing: Counts, cards: int) -> tuple[Instances, ...] | None:
        """The instances of each card; None if so few cards cannot hold them."""
        key = (tuple(sorted(missing.items())), cards)
        if key not in self._known:
            self._known[key] = self._search(dict(missing), cards)
        return self._known[key]

    def _search(self, missing: dict[MigProfile, int], cards: int) -> tuple[Instances, ...] | None:
        if not missing:
            return ((),) * cards
        if not cards:
            return None
        for taken in self._fullest(missing):
            rest = {p: count - taken.get(p, 0) for p, count in missing.items()}
            others = self.pack({p: count for p, count in rest.items() if count}, cards - 1)
            if others is not None:
                return (tuple(sorted(taken.items())), *others)
        return None

    def _fullest(self, missing: Counts) -> list[dict[MigProfile, int]]:
        """The maximal subsets of the missing instances that fit on one card."""
        if self._whole:
            fitting = [
                option
                for option in self._options
                if all(missing.get(p, 0) >= count for p, count in option.items())
            ]
        else:
            fitting = [
                taken
                for taken in _parts(self._geometry, missing)
                if place(self._geometry, taken).fits
            ]
        return [
            option
            for option in sorted(fitting, key=lambda found: sorted(found.items()), reverse=True)
            if not any(option != other and _is_within(option, other) for other in fitting)
        ]


def _parts(geometry: Geometry, counts: Counts) -> Iterator[dict[MigProfile, int]]:
    """All non-empty subsets that need at most the compute slices of one card."""
    parts: list[tuple[dict[MigProfile, int], int]] = [({}, geometry.compute_slots)]
    for profile, count in sorted(counts.items()):
        parts = [
            ({**part, **({profile: number} if number else {})}, left)
            for part, room in parts
            for number in range(count + 1)
            if (left := room - number * profile.compute_slices) >= 0
        ]
    yield from (part for part, _ in parts if part)


def _is_within(small: Counts, large: Counts) -> bool:
    return all(large.get(profile, 0) >= count for profile, count in small.items())


def _total(cards: Iterable[Instances | None]) -> Instances:
    total: Counter[MigProfile] = Counter()
    for instances in cards:
        total.update(dict(instances or ()))
    return tuple(sorted(total.items()))


def _listed(instances: Instances) -> str:
    return ", ".join(f"{count} × {profile}" for profile, count in instances)
