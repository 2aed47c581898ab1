"""The holders of a node's devices over time: the only place that assigns devices.

Put here: free devices over a time, taking them, and giving them back early.
Not here: which node a pod goes to (`scheduler`), or at which time (`cluster_simulation`).

A device is free for a pod only if no pod holds it during the pod's whole time, as far as that is
known: pods with exact times reserve theirs beforehand, and a generated pod never stands in their
way. Of a shared device, replicas are given from the lowest number on; a claim's share of a card is
one range of its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fake_gpu.fleet.model import Device

FOR_EVER = 1 << 60


@dataclass(slots=True)
class Booking:
    """One device, or a range of its replicas, taken during `[from_at, until_at)`."""

    device: Device
    from_at: int
    until_at: int
    replica_start: int = 0
    replica_count: int = 1


@dataclass(slots=True)
class _Slot:
    device: Device
    bookings: list[Booking] = field(default_factory=list)


@dataclass(slots=True)
class NodeCalendar:
    """The devices of one node and their bookings, by offer (a resource, or a DRA class)."""

    name: str
    slots: dict[str, list[_Slot]] = field(default_factory=dict)
    by_id: dict[str, _Slot] = field(default_factory=dict)
    plain: bool = True  # each device is offered under one name, its resource

    def add(self, offers: Sequence[str], device: Device) -> None:
        slot = _Slot(device)
        self.plain = self.plain and tuple(offers) == (device.resource,)
        for offer in offers:
            self.slots.setdefault(offer, []).append(slot)
        self.by_id[device.device_id] = slot

    def free(self, offer: str, at: int, unusable: frozenset[str] = frozenset()) -> int:
        """The number of free units of an offer at one instant."""
        units = 0
        for slot in self.slots.get(offer, ()):
            device = slot.device
            if device.card_id in unusable or not device.exists_at(at):
                continue
            units += device.replica_count or 1
            for booking in slot.bookings:
                if booking.from_at <= at < booking.until_at:
                    units -= booking.replica_count
        return units

    def book(
        self,
        offer: str,
        count: int,
        from_at: int,
        until_at: int,
        *,
        unusable: frozenset[str] = frozenset(),
        only: Sequence[str] = (),
        whole_lifetime: bool = False,
    ) -> list[Booking] | None:
        """Take `count` units of an offer, or nothing at all.

        `unusable` are unhealthy cards, `only` the requested card or device IDs; with
        `whole_lifetime` the device must exist until the end.
        """
        slots = [
            slot
            for slot in self.slots.get(offer, ())
            if slot.device.exists_at(from_at)
            and slot.device.card_id not in unusable
            and (not only or slot.device.card_id in only or slot.device.device_id in only)
            and (not whole_lifetime or _outlives(slot.device, until_at))
        ]
        found = _find(slots, count, from_at, until_at)
        for booking in found or ():
            self.by_id[booking.device.device_id].bookings.append(booking)
        return found

    def end_early(self, booking: Booking, at: int) -> None:
        """The rest of a booking is free again from `at` on."""
        booking.until_at = max(booking.from_at, min(booking.until_at, at))

    def forget_before(self, bookings: Sequence[Booking], at: int) -> None:
        """Drop bookings that are over: the past is not read again."""
        for booking in bookings:
            slot = self.by_id[booking.device.device_id]
            slot.bookings = [b for b in slot.bookings if b.until_at > at]


def _units(device: Device) -> int:
    return device.replica_count or 1


def _outlives(device: Device, until_at: int) -> bool:
    return device.exists_until is None or until_at <= device.exists_until


def _find(slots: Sequence[_Slot], count: int, from_at: int, until_at: int) -> list[Booking] | None:
    """The lowest devices that do; for replicas one device that has enough, else several."""
    if slots and slots[0].device.replica_count:
        return _find_replicas(slots, count, from_at, until_at)
    found: list[Booking] = []
    for slot in slots:
        if len(found) == count:
            break
        if not slot.bookings or _is_free(slot, from_at, until_at):
            found.append(Booking(slot.device, from_at, until_at))
    return found if len(found) == count else None


def _is_free(slot: _Slot, from_at: int, until_at: int) -> bool:
    return not any(b.from_at < until_at and from_at < b.until_at for b in slot.bookings)


def _find_replicas(
    slots: Sequence[_Slot], count: int, from_at: int, until_at: int
) -> list[Booking] | None:
    ranges = [(slot, _free_ranges(slot, from_at, until_at)) for slot in slots]
    if slots[0].device.makeup == "shared":
        ranges = [
            (slot, [(start, stop)])
            for slot, free in ranges
            for start, stop in free
            if stop - start >= count
        ]
    room = [sum(stop - start for start, stop in free) for _, free in ranges]
    if sum(room) < count:
        return None
    enough = [n for n, units in enumerate(room) if units >= count]
    # The fullest device that still has room keeps the others whole.
    order = [min(enough, key=lambda n: (room[n], n))] if enough else range(len(ranges))
    found: list[Booking] = []
    left = count
    for n in order:
        slot, free = ranges[n]
        for start, stop in free:
            size = min(left, stop - start)
            if size:
                found.append(Booking(slot.device, from_at, until_at, start, size))
                left -= size
    return found


def _free_ranges(slot: _Slot, from_at: int, until_at: int) -> list[tuple[int, int]]:
    busy = sorted(
        (b.replica_start, b.replica_start + b.replica_count)
        for b in slot.bookings
        if b.from_at < until_at and from_at < b.until_at
    )
    free: list[tuple[int, int]] = []
    at = 0
    for start, stop in busy:
        if start > at:
            free.append((at, start))
        at = max(at, stop)
    if at < _units(slot.device):
        free.append((at, _units(slot.device)))
    return free
