"""The use and the holder of each device of a node, as steps over time.

Put here: the state behind device metrics: utilisation, memory, power, energy, errors.
Not here: how an exporter names and writes them (`dcgm`, `amd`).

An *entity* is the subject of a series: a card, a MIG GPU instance, an AMD partition. Its state
changes only when a pod comes or goes or a step of its utilisation begins, so a month is a few
thousand steps, and energy is the integral of the power of these steps, to the microjoule.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from fake_gpu.fleet.model import Card, Device, DeviceHold, Node, PodLifetime, Utilisation

# In seconds, later than any time: the end of an interval without an end.
NO_END = 1 << 52
# Memory of a card that the driver reserves, and that an idle card shows as used.
RESERVED_ONE_IN = 80
IDLE_USED_MIB = 4


@dataclass(frozen=True, slots=True)
class Entity:
    """A card, a GPU instance or a partition, from when until when it exists."""

    card: Card
    devices: tuple[Device, ...]
    memory_mib: int
    share: Fraction  # of the card's compute
    exists_from: int
    exists_until: int
    gpu_instance_id: int | None = None
    profile: str = ""  # of the GPU instance
    partition_id: int | None = None

    @property
    def reserved_mib(self) -> int:
        # A GPU instance's memory excludes the driver's reservation.
        return 0 if self.gpu_instance_id is not None else self.memory_mib // RESERVED_ONE_IN


@dataclass(frozen=True, slots=True)
class EntityHolder:
    """The pod and container that has an entity, from the kubelet's pod-resources API."""

    pod: PodLifetime
    hold: DeviceHold
    device: Device

    @property
    def container(self) -> str:
        return self.hold.container

    @property
    def by_claim(self) -> bool:
        return bool(self.hold.claim_uid)


class EntityState(NamedTuple):
    """The state of an entity during `[from_at, until_at)`, in whole seconds."""

    from_at: int
    until_at: int
    pct: Fraction | int  # of the entity, 0..100
    used_mib: int
    holders: tuple[EntityHolder, ...]  # in the order in which they came


def entities_of(node: Node) -> tuple[Entity, ...]:
    """All entities of a node that have had series."""
    grouped: dict[tuple[int, int, int, int], list[Device]] = {}
    for device in node.devices:
        if device.makeup == "passthrough":
            continue  # bound to vfio: no driver of the host sees it
        instance = -1 if device.gpu_instance_id is None else device.gpu_instance_id
        partition = -1 if device.partition_id is None else device.partition_id
        key = (device.card_index, instance, partition, device.exists_from)
        grouped.setdefault(key, []).append(device)
    return tuple(_entity(node, grouped[key]) for key in sorted(grouped))


def _entity(node: Node, devices: Sequence[Device]) -> Entity:
    first = devices[0]
    card = node.card(first.card_id)
    until = first.exists_until
    shares = {d.device_id: d.compute_share * (d.replica_count or 1) for d in devices}
    return Entity(
        card=card,
        devices=tuple(devices),
        memory_mib=first.memory_mib,
        share=min(Fraction(1), sum(shares.values(), Fraction(0))),
        exists_from=first.exists_from,
        exists_until=NO_END if until is None else until,
        gpu_instance_id=first.gpu_instance_id,
        profile=_instance_profile(first),
        partition_id=first.partition_id,
    )


def _instance_profile(device: Device) -> str:
    """`1c.3g.20gb` lies in an instance of the profile `3g.20gb`."""
    if device.gpu_instance_id is None:
        return ""
    head, _, rest = device.profile.partition(".")
    return rest if head.endswith("c") else device.profile


@dataclass(frozen=True, slots=True)
class UnaccountedProcess:
    """A process on a card that no pod accounts for."""

    card_index: int
    from_at: int
    until_at: int
    pct: int


class NodeUse:
    """The steps of all entities of one node."""

    def __init__(
        self, node: Node, pods: Iterable[PodLifetime], processes: Sequence[UnaccountedProcess] = ()
    ) -> None:
        self.node = node
        self.processes = processes
        self.entities = entities_of(node)
        self._holds: dict[str, list[tuple[PodLifetime, DeviceHold]]] = {}
        for pod in pods:
            for hold in pod.holds:
                self._holds.setdefault(hold.device_id, []).append((pod, hold))
        self._energy: dict[str, tuple[list[int], list[int]]] = {}

    def steps(
        self, entity: Entity, from_at: int, until_at: int, *, loads: bool = True
    ) -> list[EntityState]:
        """The entity's steps in a window, adjoining, without a hole.

        Without `loads` they have only the holders, and are few.
        """
        low, high = max(from_at, entity.exists_from), min(until_at, entity.exists_until)
        if low >= high:
            return []
        held = [
            _held(entity, pod, hold, device)
            for device in entity.devices
            for pod, hold in self._holds.get(device.device_id, ())
            if hold.held_from < high and (hold.held_until is None or hold.held_until > low)
        ]
        changes = _Changes(low, high)
        for each in held:
            changes.add_hold(each, loads=loads)
        for process in self.processes if loads else ():
            if process.card_index == entity.card.index:
                changes.add_unaccounted_process(entity, process)
        return list(changes.steps(entity))

    def milliwatts(
        self,
        card: Card,
        from_at: int,
        until_at: int,
        known: Mapping[int, Sequence[EntityState]] | None = None,
    ) -> list[tuple[int, int, int]]:
        """The card's power as (from, until, milliwatts), adjoining over the whole window.

        The steps of entities in this window, by their `id`, may be `known` already.
        """
        parts = [e for e in self.entities if e.card.card_id == card.card_id]
        found = [
            self.steps(entity, from_at, until_at) if known is None else known[id(entity)]
            for entity in parts
        ]
        if len(parts) == 1 and parts[0].share == 1 and _covers(found[0], from_at, until_at):
            return [(s.from_at, s.until_at, _milliwatts(card, s.pct)) for s in found[0]]
        changes: dict[int, Fraction | int] = {from_at: 0}
        # Loads are counted in this part of a per cent, for whole numbers add up ten times faster.
        fraction = lcm(*(entity.share.denominator for entity in parts))
        for entity, steps in zip(parts, found, strict=True):
            times = entity.share.numerator * (fraction // entity.share.denominator)
            for step in steps:
                part = step.pct * times
                changes[step.from_at] = changes.get(step.from_at, 0) + part
                changes[step.until_at] = changes.get(step.until_at, 0) - part
        power: list[tuple[int, int, int]] = []
        load: Fraction | int = 0
        for start, end in pairwise(sorted({*changes, until_at})):
            load += changes.get(start, 0)
            if end <= until_at and start < end:
                power.append((start, end, _milliwatts(card, load, fraction)))
        return power

    def microjoules_at(self, card: Card, at: int) -> int:
        """The card's energy since its node was made; requested days are cached."""
        times, totals = self._energy.setdefault(card.card_id, ([self.node.created_at], [0]))
        position = bisect_right(times, at) - 1
        if position < 0:
            return 0
        if times[position] < at:
            power = self.milliwatts(card, times[position], at)
            # A milliwatt for a second is a millijoule.
            spent = sum(milliwatts * (high - low) for low, high, milliwatts in power) * 1000
            position += 1
            times.insert(position, at)
            totals.insert(position, totals[position - 1] + spent)
        return totals[position]

    def remember_energy(self, card: Card, since: int, at: int, microjoules: int) -> None:
        """The energy at `since`, kept by an earlier walk through the card's power."""
        times, totals = self._energy.setdefault(card.card_id, ([self.node.created_at], [0]))
        # A day in which the node was made counts from there, and not from its midnight.
        if times[0] <= since and times[-1] < at:
            times.append(at)
            totals.append(microjoules)


def _covers(steps: Sequence[EntityState], from_at: int, until_at: int) -> bool:
    return bool(steps) and (steps[0].from_at, steps[-1].until_at) == (from_at, until_at)


def _milliwatts(card: Card, load: Fraction | int, fraction: int = 1) -> int:
    """Idle power, and the rest in proportion to a load in parts of a per cent; rounded down."""
    above = (card.peak_watts - card.idle_watts) * 10 * min(load, 100 * fraction)
    return card.idle_watts * 1000 + int(above // fraction)


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A hold with all that its steps need, worked out once."""

    holder: EntityHolder
    known_from: int  # the device plugin allocates when the kubelet admits the pod
    until: int
    runs: tuple[tuple[int, int], ...]  # of the container that has the device
    weight: Fraction | int
    loads: tuple[tuple[int, int, Utilisation, int], ...]  # (from, until, how busy, MiB)

    def order(self) -> tuple[int, str, str]:
        return self.known_from, self.holder.pod.uid, self.holder.device.device_id


def _held(entity: Entity, pod: PodLifetime, hold: DeviceHold, device: Device) -> _Held:
    seen = pod.acknowledged_at
    loads = pod.loads(hold)
    ends = [*(load.from_at for load in loads[1:]), NO_END]
    return _Held(
        EntityHolder(pod, hold, device),
        max(hold.held_from, seen if seen is not None else NO_END),
        NO_END if hold.held_until is None else hold.held_until,
        tuple(
            (run.started_at, NO_END if run.ended_at is None else run.ended_at)
            for each in pod.containers
            if each.name == hold.container
            for run in each.runs
        ),
        _weight(entity, device),
        tuple(
            (
                load.from_at,
                end,
                load.utilisation,
                _memory(entity, device, hold, load.memory_used_mib, pod.memory_used_pct),
            )
            for load, end in zip(loads, ends, strict=False)
        ),
    )


class _Changes:
    """The starts and ends in a window, and the steps between them."""

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self._loads: dict[int, Fraction | int] = {}  # changes of per cent, by time
        self._memory: dict[int, int] = {}
        self._comings: dict[int, list[_Held]] = {}
        self._goings: dict[int, list[_Held]] = {}

    def add_hold(self, held: _Held, *, loads: bool) -> None:
        start, end = max(held.known_from, self.low), min(held.until, self.high)
        if start >= end:
            return
        self._comings.setdefault(start, []).append(held)
        self._goings.setdefault(end, []).append(held)
        for origin, until, use, memory_mib in held.loads if loads else ():
            for from_at, until_at in held.runs:
                low, high = max(start, from_at, origin), min(end, until_at, until)
                if low < high:
                    self._add_memory(low, high, memory_mib)
                    for begins, ends, pct in phases(use, low - origin, high - origin):
                        self._add_load(origin + begins, origin + ends, held.weight * pct)

    def add_unaccounted_process(self, entity: Entity, process: UnaccountedProcess) -> None:
        low, high = max(self.low, process.from_at), min(self.high, process.until_at)
        if low < high:
            usable = entity.memory_mib - entity.reserved_mib
            self._add_load(low, high, process.pct)
            self._add_memory(low, high, usable * process.pct // 100)

    def _add_load(self, low: int, high: int, pct: Fraction | int) -> None:
        self._loads[low] = self._loads.get(low, 0) + pct
        self._loads[high] = self._loads.get(high, 0) - pct

    def _add_memory(self, low: int, high: int, mebibytes: int) -> None:
        self._memory[low] = self._memory.get(low, 0) + mebibytes
        self._memory[high] = self._memory.get(high, 0) - mebibytes

    def steps(self, entity: Entity) -> Iterator[EntityState]:
        usable = entity.memory_mib - entity.reserved_mib
        times = {self.low, self.high, *self._loads, *self._memory, *self._comings, *self._goings}
        pct: Fraction | int = 0
        used = 0
        holders: tuple[EntityHolder, ...] = ()
        present: list[_Held] = []
        for start, end in pairwise(sorted(times)):
            pct += self._loads.get(start, 0)
            used += self._memory.get(start, 0)
            if start in self._comings or start in self._goings:
                gone = self._goings.get(start, [])
                present = [held for held in present if held not in gone]
                present = sorted([*present, *self._comings.get(start, [])], key=_Held.order)
                holders = tuple(held.holder for held in present)
            shown = min(max(used, IDLE_USED_MIB), usable)
            yield EntityState(start, end, min(pct, 100), shown, holders)


def phases(use: Utilisation, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(from, until, per cent) of a utilisation within a window; adjoining equal ones are one."""
    from_at, pct = start, -1
    for at, until, current in _steps(use, start, end):
        if current != pct:
            if at > from_at:
                yield from_at, at, pct
            from_at, pct = at, current
        if until >= end:
            yield from_at, end, pct


def _steps(use: Utilisation, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The steps one after another, through all laps."""
    period = use.period_seconds
    last = end if use.repeat is None else min(end, use.repeat * period)
    lap_starts = range(start // period * period, last, period)
    if use.is_level and start < last:
        yield start, last, use.steps[0][1]
        lap_starts = range(0)
    for lap in lap_starts:
        at = lap
        for seconds, pct in use.steps:
            until = at + seconds
            if until > start and at < last:
                yield max(at, start), min(until, last), pct
            at = until
    if last < end:
        yield max(start, last), end, use.after_pct


def _weight(entity: Entity, device: Device) -> Fraction | int:
    """A compute instance is a part of its GPU instance; a replica may use all of its card."""
    if device.replica_count or not entity.share or device.compute_share == entity.share:
        return 1
    return device.compute_share / entity.share


def _memory(
    entity: Entity, device: Device, hold: DeviceHold, known_mib: int | None, used_pct: int
) -> int:
    usable = entity.memory_mib - entity.reserved_mib
    if known_mib is not None:
        return min(known_mib, usable)
    units, of_units = (hold.replica_count, device.replica_count) if device.replica_count else (1, 1)
    return usable * units * used_pct // (100 * of_units)
