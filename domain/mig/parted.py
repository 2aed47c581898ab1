"""mig-parted's configuration files: read as mig-parted reads them, bare or in ConfigMaps.

Put here: which files mig-parted accepts, their entries, and whether an entry fits a card.
Not here: layouts of a card (`domain.mig.layouts`), or the catalogue of cards (`domain.gpu`).

Three things are read that mig-parted does not read: a single number of `devices` (with a warning,
and `is_accepted` is false), a ConfigMap among other objects, in a `kind: List` or as one of
several. mig-parted checks only the form of a file; it can still fail to apply it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from domain.errors import CheckFailed, InvalidValue, shown
from domain.mig.geometry import Geometry, Share
from domain.mig.placing import PlacedLayout, Unplaceable, place
from domain.mig.profile import LARGEST_NUMBER, MigProfile, NotAMigProfile, parse_profile
from domain.mig.yaml_tree import Document, NotAMigPartedFile, Value, read_documents

ACCEPTED = "Selected MIG configuration is valid"
"""The output of `nvidia-mig-parted assert --valid-config`."""

REFUSED = "refused: devices is a single number, and has to be a list"

DEFAULT_KEY = "config.yaml"
"""The key of the ConfigMap's data that the GPU operator mounts."""

ALL_DEVICES = None
"""`devices: all`."""

MOST_PROBLEMS_SHOWN = 20
"""More than a screen of problems is not read."""

_FILTER = re.compile(r"(?:0x)?([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})", re.ASCII)


class LayoutDoesNotFit(CheckFailed):
    """A configuration has instances for a card that no layout of the card holds."""

    code = "MIG-002"

    def __init__(self, where: str, failed: int, total: int) -> None:
        super().__init__(
            where=where,
            seen=f"{failed} of {total} entries fit none of their cards",
            why="mig-parted accepts such a file, tries every order on the card, fails, and leaves "
            "the card without instances",
            remedy="`gpu-ledger mig layouts PRODUCT` lists the layouts of a card",
        )


@dataclass(frozen=True, slots=True)
class PartedEntry:
    """One entry of a configuration: which cards, and how each of them is cut."""

    line: int
    device_filter: tuple[str, ...]
    devices: tuple[int, ...] | None  # None: all
    mig_enabled: bool
    mig_devices: Mapping[MigProfile, int] = field(default_factory=dict)

    def is_for(self, pci_device_ids: frozenset[str]) -> bool:
        """Whether a card with one of these PCI device ids passes the filter."""
        return not self.device_filter or not self.filtered_ids().isdisjoint(pci_device_ids)

    def covers(self, earlier: PartedEntry) -> bool:
        """Whether every card that `earlier` is for is also this one's, whichever card it is."""
        all_cards = self.devices is ALL_DEVICES or (
            earlier.devices is not ALL_DEVICES and set(earlier.devices) <= set(self.devices)
        )
        every_kind = not self.device_filter or (
            bool(earlier.device_filter) and earlier.filtered_ids() <= self.filtered_ids()
        )
        return all_cards and every_kind

    def filtered_ids(self) -> frozenset[str]:
        """The PCI device ids that the filter names; `0x20B010DE` is the device 20B0 of 10DE."""
        matches = (_FILTER.fullmatch(text) for text in self.device_filter)
        return frozenset(match[1].upper() for match in matches if match)


@dataclass(frozen=True, slots=True)
class PartedFile:
    """The configurations of a file by name, and the warnings about them."""

    configs: Mapping[str, tuple[PartedEntry, ...]]
    warnings: tuple[str, ...] = ()
    is_accepted: bool = True  # by mig-parted itself

    def chosen(self, where: str, name: str | None) -> Mapping[str, tuple[PartedEntry, ...]]:
        """One configuration by its name, or all of them."""
        if name is None:
            return self.configs
        if name not in self.configs:
            raise unknown_choice(f"the configurations of {where}", name, _listed(self.configs))
        return {name: self.configs[name]}


def unknown_choice(where: str, chosen: str, known: str) -> InvalidValue:
    """The error of a profile or configuration that does not exist."""
    return InvalidValue(
        where=where,
        seen=f"{shown(chosen)} is not among {known}",
        why="the command cannot choose another one in its place",
        remedy=f"choose one of {known}",
    )


def parse_parted_file(body: str | bytes, where: str = "the file") -> PartedFile:
    """Read a file, or raise one error with everything that is wrong in it."""
    reader = _PartedReader(where)
    found = reader.file(read_documents(where, body))
    if reader.problems:
        shown_first = reader.problems[:MOST_PROBLEMS_SHOWN]
        listed = "; ".join(f"line {line}: {problem}" for line, problem in shown_first)
        more = len(reader.problems) - len(shown_first)
        raise NotAMigPartedFile(where, listed + (f"; and {more} more" if more else ""))
    return PartedFile(found, tuple(reader.warnings), reader.is_accepted)


class _PartedReader:
    """Walks the tree of one file and collects problems and warnings."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.is_accepted = True
        self.problems: list[tuple[int, str]] = []
        self.warnings: list[str] = []

    def file(self, documents: list[Document]) -> dict[str, tuple[PartedEntry, ...]]:
        config_maps = [
            fields
            for document in documents
            for fields in _objects(document.root)
            if fields["kind"].content == "ConfigMap"
        ]
        if not config_maps:
            return self._of_documents(documents)
        found: dict[str, tuple[PartedEntry, ...]] = {}
        for fields in config_maps:
            name, text = _name_of(fields), self._config_text(fields)
            configs = self._of_documents(read_documents(f"{self.where} in ConfigMap {name}", text))
            found |= {(f"{name}/{key}" if key in found else key): configs[key] for key in configs}
        return found

    def _of_documents(self, documents: list[Document]) -> dict[str, tuple[PartedEntry, ...]]:
        if len(documents) > 1:
            self.warnings.append("mig-parted reads only the first YAML document")
        for line, key in documents[0].repeated_keys:
            self.warnings.append(f"line {line}: {shown(key)} is there twice; the last one counts")
        return self._spec(documents[0].root)

    def _config_text(self, fields: Mapping[str, Value]) -> str:
        data = fields.get("data")
        values = data.content if data is not None and isinstance(data.content, dict) else {}
        texts = {key: v.content for key, v in values.items() if isinstance(v.content, str)}
        if DEFAULT_KEY not in texts and len(texts) != 1:
            raise NotAMigPartedFile(
                f"{self.where} line {fields['kind'].line}",
                f"the ConfigMap has {len(texts)} texts and none under {DEFAULT_KEY}",
            )
        return texts.get(DEFAULT_KEY, next(iter(texts.values())))

    def _problem(self, value: Value, text: str) -> None:
        self.problems.append((value.line, text))

    def _spec(self, root: Value) -> dict[str, tuple[PartedEntry, ...]]:
        if root.content is None:
            return {}
        if not isinstance(root.content, dict):
            self._problem(root, "the file is not a mapping")
            return {}
        fields = root.content
        if not fields:
            self._problem(root, "unknown version: ''")
        elif "version" not in fields:
            self._problem(root, "the field `version` is missing")
        elif fields["version"].content != "v1":
            self._problem(fields["version"], f"unknown version: {shown(fields['version'].content)}")
        for name, value in root.items():
            if name not in ("version", "mig-configs"):
                self._problem(value, f"unexpected field: {shown(name)}")
        return self._configs(fields["mig-configs"]) if "mig-configs" in fields else {}

    def _configs(self, value: Value) -> dict[str, tuple[PartedEntry, ...]]:
        if not isinstance(value.content, dict) or not value.content:
            self._problem(value, "`mig-configs` needs at least one configuration")
            return {}
        return {name: self._entries(name, entries) for name, entries in value.items()}

    def _entries(self, name: str, value: Value) -> tuple[PartedEntry, ...]:
        if not isinstance(value.content, list) or not value.content:
            self._problem(value, f"the configuration {shown(name)} needs at least one entry")
            return ()
        return tuple(
            entry for item in value.content if (entry := self._entry(name, item)) is not None
        )

    def _entry(self, name: str, value: Value) -> PartedEntry | None:
        if not isinstance(value.content, dict):
            self._problem(value, f"an entry of {shown(name)} is no mapping")
            return None
        fields: dict[str, Value] = value.content
        for key in fields:
            if key not in ("device-filter", "devices", "mig-enabled", "mig-devices"):
                self._problem(fields[key], f"unexpected field: {shown(key)}")
        missing = [key for key in ("devices", "mig-enabled") if key not in fields]
        for key in missing:
            self._problem(value, f"missing required field: {key}")
        if missing:
            return None
        enabled = fields["mig-enabled"].content
        if not isinstance(enabled, bool) and enabled is not None:
            self._problem(fields["mig-enabled"], f"mig-enabled is {shown(enabled)}, no boolean")
        return PartedEntry(
            line=value.line,
            device_filter=self._filter(fields.get("device-filter")),
            devices=self._devices(fields["devices"]),
            mig_enabled=enabled is True,
            mig_devices=self._mig_devices(value, enabled is True, fields.get("mig-devices")),
        )

    def _filter(self, value: Value | None) -> tuple[str, ...]:
        if value is None or value.content is None:
            return ()
        texts = (
            [item.content for item in value.content]
            if isinstance(value.content, list)
            else [value.content]
        )
        if not all(isinstance(text, str) for text in texts):
            self._problem(value, "device-filter is neither text nor a list of texts")
            return ()
        for text in texts:
            if text and not _FILTER.fullmatch(text):
                self.warnings.append(
                    f"line {value.line}: the filter {shown(text)} is no id such as 0x20B010DE; "
                    "it matches no card"
                )
        return tuple(text for text in texts if text)

    def _devices(self, value: Value) -> tuple[int, ...] | None:
        content = value.content
        if content == "all":
            return ALL_DEVICES
        if _is_integer(value):
            self.is_accepted = False
            self.warnings.append(
                f"line {value.line}: devices is the single number {content}; "
                f"mig-parted wants a list, [{content}]"
            )
            return (content,)
        if isinstance(content, str):
            self._problem(value, f"devices is {shown(content)}; the only text allowed is `all`")
            return ()
        if not isinstance(content, list) or not all(_is_integer(item) for item in content):
            self._problem(value, "devices is neither `all` nor a list of whole numbers")
            return ()
        return tuple(item.content for item in content)

    def _mig_devices(
        self, entry: Value, enabled: bool, value: Value | None
    ) -> dict[MigProfile, int]:
        if value is None or value.content is None:
            if enabled:
                self._problem(entry, "mig-devices is missing though mig-enabled is true")
            return {}
        if not isinstance(value.content, dict):
            self._problem(value, "mig-devices is no mapping of profiles to counts")
            return {}
        counts = self._counts(value)
        if value.content and not enabled:
            self._problem(value, "mig-devices is set but mig-enabled is false")
        elif value.content and counts and not any(counts.values()):
            self._problem(value, "all counts of mig-devices are 0")
        return counts

    def _counts(self, value: Value) -> dict[MigProfile, int]:
        counts: dict[MigProfile, int] = {}
        for name, count in value.items():
            try:
                profile = parse_profile(name)
            except NotAMigProfile as error:
                self._problem(count, f"mig-devices: {error.seen}")
                continue
            number = 0 if count.content is None else count.content
            if isinstance(number, bool) or not isinstance(number, int) or number > LARGEST_NUMBER:
                self._problem(count, f"the count of {name} is {shown(number)}, no whole number")
            elif number < 0:
                self._problem(count, f"the count of {name} is negative: {number}")
            else:
                counts[profile] = counts.get(profile, 0) + number
        return counts


def _objects(root: Value) -> list[Mapping[str, Value]]:
    """The Kubernetes objects of a document: itself, or the items of its List."""
    fields = root.content
    if not isinstance(fields, dict) or "kind" not in fields:
        return []
    items = fields.get("items")
    if fields["kind"].content == "List" and items is not None and isinstance(items.content, list):
        return [found for item in items.content for found in _objects(item)]
    return [fields]


def _name_of(fields: Mapping[str, Value]) -> str:
    metadata = fields.get("metadata")
    inner = metadata.content if metadata is not None else None
    name = inner.get("name") if isinstance(inner, dict) else None
    return str(name.content) if name is not None else "without a name"


def _is_integer(value: Value) -> bool:
    return isinstance(value.content, int) and not isinstance(value.content, bool)


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names)[:MOST_PROBLEMS_SHOWN]) or "none"


# Fitting ------------------------------------------------------------------------------------------

NOTHING = Share(Fraction(0), Fraction(0))


@dataclass(frozen=True, slots=True)
class EntryFit:
    """One entry of a configuration on one card."""

    geometry: str
    slices_add_up: bool  # the result of mig-parted's own table, which counts slices alone
    placed: PlacedLayout | Unplaceable
    sold: Share
    unsold: Share

    @property
    def fits(self) -> bool:
        return self.placed.fits


def fit_entry(entry: PartedEntry, geometry: Geometry) -> EntryFit:
    """Prove that an entry fits a card, and say which shares it sells."""
    placed = place(geometry, entry.mig_devices)
    sold = sold_share(geometry, entry.mig_devices) if placed.fits and entry.mig_enabled else NOTHING
    whole = Share(Fraction(1), Fraction(1)) if entry.mig_enabled else NOTHING
    return EntryFit(
        geometry=geometry.name,
        slices_add_up=slices_add_up(geometry, entry.mig_devices),
        placed=placed,
        sold=sold,
        unsold=Share(whole.compute - sold.compute, whole.memory - sold.memory),
    )


def sold_share(geometry: Geometry, counts: Mapping[MigProfile, int]) -> Share:
    """The share of one card that these instances are, per dimension."""
    total = NOTHING
    for profile, count in counts.items():
        share = geometry.share(profile)
        if count and share is not None:
            total = total + share.times(Fraction(count))
    return total


def slices_add_up(geometry: Geometry, counts: Mapping[MigProfile, int]) -> bool:
    """Whether the profiles exist and their compute slices add up to a card's or less.

    mig-parted's table of known configurations checks no more than that: it accepts two 3g and one
    1g, although two 3g leave no slot.
    """
    if any(geometry.canonical(profile) is None for profile in counts):
        return False
    slices = sum(profile.compute_slices * count for profile, count in counts.items())
    return slices <= geometry.compute_slots
