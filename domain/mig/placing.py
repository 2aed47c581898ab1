"""Whether one set of instances fits one card: in which order and at which slots, or why not.

Put here: the proof for a given set, compute instances included.
Not here: all layouts of a card (`domain.mig.layouts`), configuration files (`domain.mig.parted`).

mig-parted creates instances one after another, each where the driver puts it, and tries every
order until one succeeds. The order given here is one that succeeds when each instance takes the
lowest free slots at which it may start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from domain.mig.geometry import Geometry, InstanceProfile
from domain.mig.layouts import Instances, Layout, OccupiedParts, Placement, can_take
from domain.mig.profile import MigProfile


@dataclass(frozen=True, slots=True)
class PlacedLayout:
    """The GPU instances in an order of creation, each with its slots."""

    order: Layout

    fits = True


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """The reason why no order of creation and no slots exist, in one sentence."""

    reason: str

    fits = False


def place(geometry: Geometry, wanted: Mapping[MigProfile, int]) -> PlacedLayout | Unplaceable:
    """Prove that a set of instances fits a card, or say why it cannot."""
    counts = {profile: count for profile, count in wanted.items() if count}
    if unknown := [str(profile) for profile in counts if geometry.canonical(profile) is None]:
        return Unplaceable(f"{geometry.name} has no profile {', '.join(sorted(unknown))}")
    if any(count < 0 for count in counts.values()):
        return Unplaceable("a count is negative")
    if excess := _explain_excess(geometry, counts):
        return Unplaceable(excess)
    order = _creation_order(geometry, gpu_instances(geometry, counts))
    return (
        PlacedLayout(order)
        if order is not None
        else Unplaceable(_explain_no_slots(geometry, counts))
    )


def gpu_instances(geometry: Geometry, counts: Mapping[MigProfile, int]) -> Instances:
    """The GPU instances of a set: as few as can hold its compute instances, which share them."""
    parts: dict[MigProfile, list[int]] = {}
    for profile, count in counts.items():
        canonical = geometry.canonical(profile)
        if canonical is not None:
            sizes = parts.setdefault(canonical.instance, [])
            sizes += [canonical.compute_slices] * count
    needed = [
        (instance, _fewest_instances(instance.gpu_slices, tuple(sorted(sizes, reverse=True))))
        for instance, sizes in parts.items()
    ]
    return tuple(sorted((instance, count) for instance, count in needed if count))


def _explain_excess(geometry: Geometry, counts: Mapping[MigProfile, int]) -> str:
    """The first limit of the card that a sum exceeds, as a sentence; empty if there is none."""
    compute = sum(profile.compute_slices * count for profile, count in counts.items())
    if compute > geometry.compute_slots:
        return f"{compute} compute slots are requested, and the card has {geometry.compute_slots}"
    instances = gpu_instances(geometry, counts)
    for name, count in instances:
        limit = _instance_profile(geometry, name).max_count
        if count > limit:
            return f"{count} instances of {name} are requested, and the card has {limit}"
    memory = sum(
        _instance_profile(geometry, name).memory_slots * count for name, count in instances
    )
    if memory > geometry.memory_slots:
        slices = f"the slices add up to {compute} of {geometry.compute_slots}"
        return f"{slices}, but {memory} memory slots are requested, and the card has " + (
            f"{geometry.memory_slots}: {_describe_memory(geometry, instances)}"
        )
    media = sum(
        _instance_profile(geometry, name).media_engines * count for name, count in instances
    )
    if media > geometry.media_engines:
        return f"{media} media engines are requested, and the card has {geometry.media_engines}"
    return ""


def _describe_memory(geometry: Geometry, instances: Instances) -> str:
    return ", ".join(
        f"{count} × {name} covers {count * _instance_profile(geometry, name).memory_slots}"
        for name, count in reversed(instances)
    )


def _instance_profile(geometry: Geometry, profile: MigProfile) -> InstanceProfile:
    found = geometry.find(profile)
    assert found is not None, f"{profile} was looked up before"
    return found


def _explain_no_slots(geometry: Geometry, counts: Mapping[MigProfile, int]) -> str:
    """Why no slots are left although all sums are within their limits: the possible starts."""
    instances = gpu_instances(geometry, counts)
    compute = sum(
        _instance_profile(geometry, name).compute_slots * count for name, count in instances
    )
    places = [
        f"{count} × {name} (covers {_instance_profile(geometry, name).memory_slots} of "
        f"{geometry.memory_slots} slots, starts at "
        f"{_join_with_or(_instance_profile(geometry, name).starts)})"
        for name, count in reversed(instances)
    ]
    return (
        f"the slices add up to {compute} of {geometry.compute_slots}, "
        f"but no slots are left: {', '.join(places)}"
    )


def _join_with_or(starts: tuple[int, ...]) -> str:
    words = [str(start) for start in starts]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


@lru_cache(maxsize=4096)
def _creation_order(geometry: Geometry, instances: Instances) -> Layout | None:
    """Try the orders as mig-parted does, largest first; the lowest free slots are taken."""
    remaining = tuple(sorted(instances, key=lambda pair: (-pair[0].gpu_slices, pair[0])))
    return _continue_order(geometry, remaining, (), OccupiedParts())


def _continue_order(
    geometry: Geometry, remaining: Instances, order: Layout, taken: OccupiedParts
) -> Layout | None:
    if not remaining:
        return order
    for index, (name, count) in enumerate(remaining):
        profile = _instance_profile(geometry, name)
        start = next((s for s in profile.starts if can_take(geometry, taken, profile, s)), None)
        if start is None:
            continue
        rest = (
            remaining[:index] + (((name, count - 1),) if count > 1 else ()) + remaining[index + 1 :]
        )
        more = (*order, Placement(start, profile.memory_slots, name))
        found = _continue_order(geometry, rest, more, taken.with_instance(profile, start))
        if found is not None:
            return found
    return None


@lru_cache(maxsize=4096)
def _fewest_instances(capacity: int, sizes: tuple[int, ...]) -> int:
    """The fewest instances of `capacity` slices that hold compute instances of these sizes."""
    if all(size == capacity for size in sizes):
        return len(sizes)
    rest = sizes[1:]
    return 1 + min(
        _fewest_instances(capacity, left)
        for left in _sizes_after_one_instance(capacity - sizes[0], rest)
    )


def _sizes_after_one_instance(room: int, sizes: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The sizes that may remain after one instance is filled."""
    fitting = {size for size in sizes if size <= room}
    if not fitting:
        return {sizes}
    remaining: set[tuple[int, ...]] = set()
    for size in fitting:
        index = sizes.index(size)
        remaining |= _sizes_after_one_instance(room - size, sizes[:index] + sizes[index + 1 :])
    return remaining
