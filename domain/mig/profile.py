"""A MIG profile as a value: `[Cc.]Gg.Ngb[+attribute,…|-attribute,…]`.

Put here: the grammar, and the three spellings (configuration, resource name, as
kube-state-metrics mangles it).
Not here: which profiles a card has (`domain.mig.geometry`).

mig-parted writes `1g.5gb+me`; in names of resources and configurations the `+` becomes a dot,
`nvidia.com/mig-1g.5gb.me`. `1g.24gb-me` (without media engines) keeps its minus there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from domain.errors import InvalidValue, shown

LONGEST_PROFILE = 253
"""In characters: no name in Kubernetes is longer, and no real profile has more than 20."""

LARGEST_NUMBER = 2**63 - 1
"""The largest integer of Go; mig-parted refuses a larger number."""

_FIELDS = re.compile(r"(?:([0-9]+)c\.)?([0-9]+)g\.([0-9]+)gb", re.ASCII)
_ATTRIBUTE = re.compile(r"[A-Za-z](?:[A-Za-z0-9.]*[A-Za-z0-9])?", re.ASCII)
_INVALID_IN_METRICS = re.compile(r"[^a-zA-Z0-9_]")

RESOURCE_PREFIX = "nvidia.com/mig-"


class NotAMigProfile(InvalidValue):
    """Text that is not written as a MIG profile."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(
            where="a MIG profile",
            seen=f"{shown(text)}: {problem}",
            why="without a valid profile the share of the card is not known",
            remedy="write it as 1g.5gb, 1c.3g.20gb, 1g.5gb+me or 1g.24gb-me",
        )


def mangled(name: str) -> str:
    """A name as kube-state-metrics writes it: only letters and digits stay, others become `_`."""
    return _INVALID_IN_METRICS.sub("_", name)


@dataclass(frozen=True, slots=True, order=True)
class MigProfile:
    """Compute slices, GPU slices, gigabytes, and added or removed attributes."""

    compute_slices: int
    gpu_slices: int
    memory_gb: int
    with_attributes: tuple[str, ...] = ()
    without_attributes: tuple[str, ...] = ()

    def __str__(self) -> str:
        compute = "" if self.is_whole_instance else f"{self.compute_slices}c."
        added = f"+{','.join(self.with_attributes)}" if self.with_attributes else ""
        removed = f"-{','.join(self.without_attributes)}" if self.without_attributes else ""
        return f"{compute}{self.gpu_slices}g.{self.memory_gb}gb{added}{removed}"

    @property
    def is_whole_instance(self) -> bool:
        """False for a compute instance that shares its GPU instance, such as `1c.3g.20gb`."""
        return self.compute_slices == self.gpu_slices

    @property
    def instance(self) -> MigProfile:
        """The GPU instance that this profile lives in: `3g.20gb` for `1c.3g.20gb`."""
        return self.with_compute_slices(self.gpu_slices)

    def with_compute_slices(self, compute_slices: int) -> MigProfile:
        return MigProfile(
            compute_slices,
            self.gpu_slices,
            self.memory_gb,
            self.with_attributes,
            self.without_attributes,
        )

    @property
    def resource_name(self) -> str:
        """The name in a pod's requests: `nvidia.com/mig-1g.5gb.me`."""
        return RESOURCE_PREFIX + str(self).replace("+", ".").replace(",", ".")


def parse_profile(text: str) -> MigProfile:
    """Read a profile as mig-parted writes it in a configuration: `1g.5gb+me`, `1g.24gb-me`."""
    _refuse_too_long(text)
    if "+" in text and "-" in text:
        raise NotAMigProfile(text, "it has both + and - attributes")
    fields, sign, attributes = _split_at_sign(text)
    names = _attributes(text, attributes.split(",")) if sign else ()
    return _profile(text, fields, sign, names)


def parse_resource_profile(text: str) -> MigProfile:
    """Read a profile as a resource name, a label or `parse_profile` spells it: `1g.5gb.me`."""
    _refuse_too_long(text)
    match = _FIELDS.match(text)
    rest = text[match.end() :] if match else ""
    if match and rest.startswith("."):
        return _profile(text, match[0], "+", _attributes(text, [rest[1:]]))
    return parse_profile(text)


def _refuse_too_long(text: str) -> None:
    if len(text) > LONGEST_PROFILE:
        raise NotAMigProfile(text, f"{len(text)} characters, more than {LONGEST_PROFILE}")


def _split_at_sign(text: str) -> tuple[str, str, str]:
    sign = "+" if "+" in text else "-"
    return text.partition(sign)


def _profile(text: str, fields: str, sign: str, names: tuple[str, ...]) -> MigProfile:
    match = _FIELDS.fullmatch(fields)
    if not match:
        raise NotAMigProfile(text, "it is not of the form [Cc.]Gg.Ngb")
    numbers = [int(number) for number in match.groups() if number is not None]
    if max(numbers) > LARGEST_NUMBER:
        raise NotAMigProfile(text, f"a number is larger than {LARGEST_NUMBER}")
    compute_slices, gpu_slices, memory_gb = ([numbers[0]] if len(numbers) == 2 else []) + numbers
    added, removed = (names, ()) if sign == "+" else ((), names)
    return MigProfile(compute_slices, gpu_slices, memory_gb, added, removed)


def _attributes(text: str, names: list[str]) -> tuple[str, ...]:
    for name in names:
        if not _ATTRIBUTE.fullmatch(name):
            raise NotAMigProfile(text, "an attribute has letters, digits and dots between letters")
    if len(set(names)) < len(names):
        raise NotAMigProfile(text, "an attribute is there twice")
    return tuple(sorted(names))
