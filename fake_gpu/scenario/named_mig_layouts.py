"""MIG layouts by name: those that mig-parted ships, and those of a file.

Put here: a name or selectors to the instances of each card of a node.
Not here: reading mig-parted files (`domain.mig.parted`), or placing instances (`fleet.hardware`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from domain.mig.parted import PartedFile
from fake_gpu.fleet.hardware import products, profiles
from fake_gpu.scenario.schema import InvalidScenarioValue
from fake_gpu.scenario.spec_hardware import CardLayout, CardLayoutSpec, cards_selected

BALANCED = {8: ((1, 2), (2, 1), (3, 1)), 4: ((1, 2), (2, 1))}  # memory slots: (compute, how many)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One entry of a mig-parted config: which cards, and how they are cut."""

    devices: str  # as `cards_selected` reads it
    device_filter: tuple[str, ...]  # PCI device IDs, as 20B0; empty: any card
    layout: CardLayout | None  # None: MIG off


@dataclass(frozen=True, slots=True)
class LayoutBook:
    """Named layouts: the shipped ones, and those of a mig-parted file."""

    configs: Mapping[str, Sequence[ConfigEntry]] = field(default_factory=dict)

    def card_layouts(
        self, layout: CardLayoutSpec, product: str, cards: int
    ) -> tuple[CardLayout | None, ...]:
        """The instances of each card; None is a whole card."""
        result: list[CardLayout | None] = [None] * cards
        for selector, card_layout in self._selected(layout, product):
            for index in cards_selected(selector, cards):
                if index >= cards:
                    raise InvalidScenarioValue(f"no card {index}", f"the node has {cards} cards")
                result[index] = card_layout
        return tuple(result)

    def _selected(
        self, layout: CardLayoutSpec, product: str
    ) -> Sequence[tuple[str, CardLayout | None]]:
        if not layout.name:
            return layout.by_card
        if layout.name in self.configs:
            pci = products()[product].pci_device[2:6].upper()
            return [
                (entry.devices, entry.layout)
                for entry in self.configs[layout.name]
                if not entry.device_filter or pci in entry.device_filter
            ]
        return [("all", shipped_layout(layout.name, product))]


def shipped_layout(name: str, product: str) -> CardLayout | None:
    """`all-1g.5gb` and its siblings, as mig-parted ships them for every product."""
    known = profiles(products()[product].mig_family)
    if name == "all-disabled":
        return None
    if name == "all-enabled":
        return {}
    if name == "all-balanced":
        return _balanced(product)
    wanted = name.removeprefix("all-")
    for profile in known.values():
        if name.startswith("all-") and profile.profile.replace("+", ".") == wanted:
            return {profile.profile: profile.max_count}
    shipped = ["all-disabled", "all-enabled", "all-balanced"]
    shipped += ["all-" + p.replace("+", ".") for p in known]
    raise InvalidScenarioValue(f"no layout {name!r} for {product}", "one of: " + ", ".join(shipped))


def _balanced(product: str) -> CardLayout:
    """The layout that mig-parted calls balanced: some of each size."""
    smallest: dict[int, str] = {}
    for profile in profiles(products()[product].mig_family).values():
        if "+" not in profile.profile and "-" not in profile.profile:
            smallest.setdefault(profile.compute_slots, profile.profile)
    return {smallest[slots]: count for slots, count in BALANCED[products()[product].memory_slots]}


def book_of(file: PartedFile) -> LayoutBook:
    """A mig-parted file as layouts by name."""
    return LayoutBook(
        {
            name: [
                ConfigEntry(
                    devices="all" if e.devices is None else ",".join(str(d) for d in e.devices),
                    device_filter=tuple(sorted(e.filtered_ids())),
                    layout={str(p): n for p, n in e.mig_devices.items()} if e.mig_enabled else None,
                )
                for e in entries
            ]
            for name, entries in file.configs.items()
        }
    )
