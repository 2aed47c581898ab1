"""Cards, devices and nodes through time.

Put here: the hardware of a fleet, as frozen values.
Not here: who uses it (`model_pods`), or how it comes about (`nodes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from fake_gpu.fleet.model_time import holds

# "shared": a card that claims share by its memory; each MiB is one replica.
DeviceMakeup = Literal[
    "whole", "mig", "replica", "mig_replica", "shared", "passthrough", "partition"
]


@dataclass(frozen=True, slots=True)
class Card:
    """One physical GPU, for the lifetime of its node."""

    card_id: str  # "GPU-…" for NVIDIA; opaque when the scenario gives it
    index: int  # the `gpu` label of dcgm-exporter, `gpu_id` of the AMD one
    vendor: Literal["nvidia", "amd"]
    product: str  # as GPU feature discovery writes it: "NVIDIA-A100-SXM4-40GB"
    model_name: str  # as in NVML: "NVIDIA A100-SXM4-40GB"
    memory_mib: int
    compute_slots: int  # 7 or 4 where MIG is possible; 1 elsewhere
    memory_slots: int  # 8 or 4 where MIG is possible; 1 elsewhere
    pci_bus_id: str
    serial: str
    pci_device: str  # "0x20B010DE": compared with the device-filter of mig-parted
    idle_watts: int
    peak_watts: int

    @property
    def device_file(self) -> str:
        """The `device` label of dcgm-exporter: nvidia0."""
        return f"nvidia{self.index}"


@dataclass(frozen=True, slots=True)
class Device:
    """A unit that a pod can hold. A MIG instance that is made again has another ID."""

    device_id: str  # "GPU-…", "MIG-…", "…/2" (AMD partition); shared or not
    card_id: str
    card_index: int
    makeup: DeviceMakeup
    resource: str  # raw: "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared"
    profile: str  # "whole", or the MIG profile: "1g.5gb", "1c.3g.20gb", "1g.5gb+me"
    compute_share: Fraction  # of the physical card; of one replica where it is shared
    memory_share: Fraction
    memory_mib: int
    exists_from: int
    exists_until: int | None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    placement_start: int | None = None  # in memory slots
    placement_size: int | None = None
    replica_count: int | None = None  # how many replicas it is offered as; None: not shared
    partition_id: int | None = None  # AMD
    dra_name: str = ""  # the device's name in its ResourceSlice: "gpu-0", "gpu-0-mig-1g5gb-19-4"

    def exists_at(self, at: int) -> bool:
        return holds(self.exists_from, self.exists_until, at)


@dataclass(frozen=True, slots=True)
class Incident:
    """A failure of one card during an interval, by its mode."""

    card_id: str
    from_at: int
    until_at: int | None
    mode: Literal["xid", "lost", "ecc", "unhealthy"]
    xid: int = 0  # the value of DCGM_FI_DEV_XID_ERRORS
    device_ids: tuple[str, ...] = ()  # the devices that left allocatable; all of the card's if ()

    def covers(self, at: int) -> bool:
        return holds(self.from_at, self.until_at, at)


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a node during `[from_at, until_at)`."""

    from_at: int
    until_at: int | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capacity: Mapping[str, int]  # extended resources only (raw names), also those that are 0
    allocatable: Mapping[str, int]
    ready: Literal["True", "False", "Unknown"]
    unschedulable: bool
    device_ids: tuple[str, ...]  # the devices that exist (healthy or not)
    exporters_paused: bool = (
        False  # during a MIG reconfiguration: no device plugin, no DCGM, no GFD
    )
    not_ready_reason: str = ""  # e.g. "NodeStatusUnknown", "KubeletNotReady"
    taints: tuple[tuple[str, str, str], ...] = ()  # (key, value, effect)

    def covers(self, at: int) -> bool:
        return holds(self.from_at, self.until_at, at)


DcgmNames = Literal["old", "new"]


@dataclass(frozen=True, slots=True)
class Node:
    """A machine; `states` cover `[created_at, gone_at)` without a hole or an overlap."""

    cluster_id: str
    name: str
    uid: str
    created_at: int
    gone_at: int | None
    roles: tuple[str, ...]  # "worker", "control-plane", "master"
    host_ip: str
    cpu_cores: int
    memory_bytes: int
    driver_version: str
    cuda_version: str
    mig_strategy: Literal["none", "single", "mixed"]
    cards: tuple[Card, ...]
    devices: tuple[Device, ...]  # all that ever existed here
    states: tuple[NodeState, ...]
    incidents: tuple[Incident, ...] = ()
    dra: bool = False  # its devices are offered by ResourceSlices, not by a device plugin
    # From when its dcgm-exporters write which names: before DCGM 4.7, since then, or both.
    dcgm_names: tuple[tuple[int, tuple[DcgmNames, ...]], ...] = ((0, ("old",)),)

    def dcgm_windows(self, names: DcgmNames) -> tuple[tuple[int, int | None], ...]:
        """From when until when it writes one set of names, in seconds."""
        ends = [*(from_at for from_at, _ in self.dcgm_names[1:]), None]
        return tuple(
            (from_at, end)
            for (from_at, written), end in zip(self.dcgm_names, ends, strict=True)
            if names in written
        )

    def known_by(self, now: int) -> Node:
        """The node as it is known at a second: without later changes."""

        def known(end: int | None) -> int | None:
            return end if end is not None and end <= now else None

        gone_at = known(self.gone_at)
        devices = [d for d in self.devices if d.exists_from <= now]
        states = [s for s in self.states if s.from_at <= now]
        incidents = [
            i
            for i in self.incidents
            if i.from_at <= (now if gone_at is None else gone_at - 1)
            and (i.until_at is None or i.until_at > self.created_at)
        ]
        return replace(
            self,
            gone_at=gone_at,
            devices=tuple(replace(d, exists_until=known(d.exists_until)) for d in devices),
            states=tuple(replace(s, until_at=known(s.until_at)) for s in states),
            incidents=tuple(replace(i, until_at=known(i.until_at)) for i in incidents),
            dcgm_names=tuple(names for names in self.dcgm_names if names[0] <= now),
        )

    def state_at(self, at: int) -> NodeState | None:
        for state in reversed(self.states):
            if state.covers(at):
                return state
        return None

    def device(self, device_id: str) -> Device:
        for device in self.devices:
            if device.device_id == device_id:
                return device
        raise KeyError(device_id)

    def card(self, card_id: str) -> Card:
        for card in self.cards:
            if card.card_id == card_id:
                return card
        raise KeyError(card_id)
