"""Failures of a node's simulated GPUs, which `gpu-ledger fake cluster fail` starts.

Put here: their format, and the devices and the settings of the plugin that each changes.
Not here: the plugin and the exporter that apply them, or the command that writes them.

    node-a:
      - {mode: unhealthy, device: 0}        # a card by its index, or any device by its ID
      - {mode: lost, device: GPU-8fc73fbd}
      - {mode: xid, device: 1, xid: 79}
      - {mode: refuse, message: out of order}
      - {mode: slow, seconds: 5}
      - {mode: crash}                       # no device plugin
      - {mode: socket}                      # the plugin's socket is gone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from fake_gpu.cluster.errors import InvalidClusterConfiguration
from fake_gpu.cluster.hardware import Hardware
from fake_gpu.cluster.plugin import HEALTHY, UNHEALTHY, PluginFailures
from fake_gpu.fleet.model import Incident

DEVICE_MODES = ("unhealthy", "lost", "xid", "ecc")
PLUGIN_MODES = ("refuse", "slow", "crash", "socket")
MODES = (*DEVICE_MODES, *PLUGIN_MODES)
FALLEN_OFF_THE_BUS = 79
SLOWEST_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Failure:
    mode: str
    device: str = ""  # a card's index or a device's ID; empty: every device
    xid: int = 0
    message: str = ""
    seconds: float = 0.0

    def as_entry(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"mode": self.mode}
        for name in ("device", "xid", "message", "seconds"):
            if value := getattr(self, name):
                entry[name] = value
        return entry


Failures = Mapping[str, tuple[Failure, ...]]  # by node


def read_failures(text: str, where: str) -> Failures:
    """The failures by node; raises InvalidClusterConfiguration."""
    try:
        document = yaml.safe_load(text) or {}
        if not isinstance(document, dict):
            raise TypeError("no mapping of nodes")
        return {str(node): tuple(map(_failure, entries)) for node, entries in document.items()}
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidClusterConfiguration(where, f"failures: {error}"[:300]) from error


def _failure(entry: Mapping[str, Any]) -> Failure:
    mode = str(entry["mode"])
    unknown = sorted(set(entry) - {"mode", "device", "xid", "message", "seconds"})
    if mode not in MODES or unknown:
        raise ValueError(f"{dict(entry)}: modes are {', '.join(MODES)}")
    seconds = float(entry.get("seconds", 5.0 if mode == "slow" else 0.0))
    if not 0 <= seconds <= SLOWEST_SECONDS:
        raise ValueError(f"{seconds} seconds; at most {SLOWEST_SECONDS}")
    default_message = "refused by a simulated failure" if mode == "refuse" else ""
    return Failure(
        mode,
        str(entry.get("device", "")),
        int(entry.get("xid", FALLEN_OFF_THE_BUS if mode == "xid" else 0)),
        str(entry.get("message", default_message)),
        seconds,
    )


def write_failures(failures: Failures) -> str:
    document = {node: [f.as_entry() for f in found] for node, found in failures.items() if found}
    return yaml.safe_dump(document, sort_keys=True) if document else ""


def plugin_failures(failures: Sequence[Failure]) -> PluginFailures:
    by_mode = {failure.mode: failure for failure in failures}
    refuse, slow = by_mode.get("refuse"), by_mode.get("slow")
    return PluginFailures(
        refuse.message if refuse else "",
        slow.seconds if slow else 0.0,
        "crash" in by_mode,
        "socket" in by_mode,
    )


def health_of(hardware: Hardware, failures: Sequence[Failure]) -> dict[str, str]:
    """The health of every device by its ID; a lost device is not in it."""
    health = {device.device_id: HEALTHY for device in hardware.devices}
    for failure in failures:
        if failure.mode not in DEVICE_MODES:
            continue
        for device in hardware.devices:
            if not matches(failure, device.device_id, device.card_id, device.card_index):
                continue
            if failure.mode == "lost":
                health.pop(device.device_id, None)
            elif device.device_id in health:
                health[device.device_id] = UNHEALTHY
    return health


def matches(failure: Failure, device_id: str, card_id: str, card_index: int) -> bool:
    return failure.device in ("", device_id, card_id, str(card_index))


def incidents_of(hardware: Hardware, failures: Sequence[Failure]) -> dict[str, Incident]:
    """The incidents that the exporter shows, by the ID of the card with the failure."""
    incidents = {}
    for failure in failures:
        for card in hardware.cards:
            is_matched = failure.device in ("", card.card_id, str(card.index)) or any(
                failure.device == d.device_id and d.card_id == card.card_id
                for d in hardware.devices
            )
            if not is_matched:
                continue
            if failure.mode == "xid":
                incidents[card.card_id] = Incident(card.card_id, 0, None, "xid", failure.xid)
            elif failure.mode == "ecc":
                incidents[card.card_id] = Incident(card.card_id, 0, None, "ecc", failure.xid or 48)
            elif failure.mode == "lost":
                incidents[card.card_id] = Incident(card.card_id, 0, None, "lost", 79)
    return incidents
