"""Products and MIG profiles: the simulated fleet's own two tables.

Put here: products, MIG profiles, where a profile may lie, and placing a layout on a card.
Not here: the catalogue that prices (`dbt/seeds`): it is kept apart, so that a mistake in one is
found by the other.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Literal

_COMPUTE_INSTANCE = re.compile(r"(\d+)c\.(.+)")


@dataclass(frozen=True, slots=True)
class HardwareProduct:
    product: str
    model_name: str
    vendor: Literal["nvidia", "amd"]
    pci_device: str
    memory_mib: int
    compute_slots: int
    memory_slots: int
    mig_family: str  # "" where MIG is not possible
    gpu_family: str
    compute_capability: str
    idle_watts: int
    peak_watts: int


@dataclass(frozen=True, slots=True)
class Profile:
    """One way to cut an instance out of a card of a family."""

    mig_family: str
    profile: str
    profile_id: int
    max_count: int
    placement_size: int
    placement_starts: tuple[int, ...]
    compute_slots: int
    memory_mib: int
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class PlacedInstance:
    """A GPU instance at its place, with the compute instances in it (1: the whole of it)."""

    profile: Profile
    start: int
    compute_instances: tuple[str, ...]  # () or ("1c.3g.20gb", "1c.3g.20gb")


@cache
def products() -> Mapping[str, HardwareProduct]:
    """Every product that a scenario can name, by its GFD label."""
    numbers = ("memory_mib", "compute_slots", "memory_slots", "idle_watts", "peak_watts")
    return {
        row["product"]: HardwareProduct(**{**row, **{n: int(row[n]) for n in numbers}})  # type: ignore[arg-type]
        for row in _rows("products.csv")
    }


def similar_products(name: str) -> str:
    """A suggestion for a product that is not in the table."""
    similar = get_close_matches(name, products(), cutoff=0.3)
    return f"one of the {len(products())} in docs/reference/scenario-file.md" + (
        f", such as {', '.join(similar)}" if similar else ""
    )


@cache
def profiles(mig_family: str) -> Mapping[str, Profile]:
    """The profiles of a family of cards, by name."""
    return {
        row["profile"]: Profile(
            mig_family=mig_family,
            profile=row["profile"],
            profile_id=int(row["profile_id"]),
            max_count=int(row["max_count"]),
            placement_size=int(row["placement_size"]),
            placement_starts=tuple(int(s) for s in row["placement_starts"].split()),
            compute_slots=int(row["compute_slots"]),
            memory_mib=int(row["memory_mib"]),
            multiprocessors=int(row["multiprocessors"]),
        )
        for row in _rows("mig_profiles.csv")
        if row["mig_family"] == mig_family
    }


def split_profile(name: str) -> tuple[int | None, str]:
    """`1c.3g.20gb` is one compute slot of `3g.20gb`; a plain profile has no such part."""
    match = _COMPUTE_INSTANCE.fullmatch(name)
    return (int(match[1]), match[2]) if match else (None, name)


def resource_of(profile: str) -> str:
    """The extended resource of a profile: `+me` becomes `.me`, `-me` stays."""
    return "nvidia.com/mig-" + profile.replace("+", ".")


def place(product: HardwareProduct, layout: Mapping[str, int]) -> tuple[PlacedInstance, ...] | None:
    """Instances at their places, by place; None when they do not fit on one card."""
    known = profiles(product.mig_family)
    instances = _instances(known, layout)
    if instances is None:
        return None
    counts: dict[str, int] = {}
    for profile, _ in instances:
        counts[profile.profile] = counts.get(profile.profile, 0) + 1
    if any(count > known[name].max_count for name, count in counts.items()):
        return None
    ordered = sorted(instances, key=lambda i: (-i[0].placement_size, -i[0].compute_slots))
    for starts in _placements([profile for profile, _ in ordered], 0, product.compute_slots):
        placed = [
            PlacedInstance(p, s, parts) for (p, parts), s in zip(ordered, starts, strict=True)
        ]
        return tuple(sorted(placed, key=lambda p: p.start))
    return None


def _instances(
    known: Mapping[str, Profile], layout: Mapping[str, int]
) -> list[tuple[Profile, tuple[str, ...]]] | None:
    """GPU instances; compute instances fill up an instance, the largest first, before the next.

    `{1c.3g.71gb: 1, 2c.3g.71gb: 1}` is one instance of 3g.71gb with two compute instances.
    """
    instances: list[tuple[Profile, tuple[str, ...]]] = []
    parts: dict[str, list[tuple[int, str]]] = {}
    for name in sorted(layout):
        slots, base = split_profile(name)
        if base not in known:
            return None
        if slots is None:
            instances += [(known[base], ())] * layout[name]
        elif 0 < slots < known[base].compute_slots:
            parts.setdefault(base, []).extend([(slots, name)] * layout[name])
        else:
            return None
    for base, wanted in sorted(parts.items()):
        filled: list[tuple[int, tuple[str, ...]]] = []
        for slots, name in sorted(wanted, key=lambda part: (-part[0], part[1])):
            place = next((i for i, (left, _) in enumerate(filled) if left >= slots), None)
            if place is None:
                filled.append((known[base].compute_slots - slots, (name,)))
            else:
                left, names = filled[place]
                filled[place] = (left - slots, (*names, name))
        instances += [(known[base], names) for _, names in filled]
    return instances


def _placements(
    wanted: Sequence[Profile], used_slots: int, compute_left: int
) -> Iterator[tuple[int, ...]]:
    """Every way to place the profiles, the lowest places first; `used_slots` is a mask of slots."""
    if not wanted:
        yield ()
        return
    first, rest = wanted[0], wanted[1:]
    if first.compute_slots > compute_left:
        return
    for start in first.placement_starts:
        mask = ((1 << first.placement_size) - 1) << start
        if mask & used_slots:
            continue
        for others in _placements(rest, used_slots | mask, compute_left - first.compute_slots):
            yield (start, *others)


def gpu_instance_id(placed: PlacedInstance, memory_slots: int) -> int:
    """As real cards number them: 7g 0, halves from 1, quarters from 3, eighths from 7."""
    if placed.profile.placement_size == memory_slots:
        return 0
    parts = memory_slots // placed.profile.placement_size
    return parts - 1 + placed.start // placed.profile.placement_size


def shares(
    product: HardwareProduct, placed: PlacedInstance, compute_instance: str
) -> tuple[Fraction, Fraction]:
    """(compute, memory) of the physical card that one instance is."""
    memory = Fraction(placed.profile.placement_size, product.memory_slots)
    if not compute_instance:
        return Fraction(placed.profile.compute_slots, product.compute_slots), memory
    slots, _ = split_profile(compute_instance)
    assert slots is not None, "a compute instance names its slots"
    part = Fraction(slots, placed.profile.compute_slots)
    return Fraction(slots, product.compute_slots), memory * part


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("fake_gpu.fleet").joinpath(name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))
