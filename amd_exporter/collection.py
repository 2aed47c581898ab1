"""Collects readings at each interval and keeps the last snapshot.

Put here: the loop, the choice of a source, the condition for readiness.
Not here: the metrics page (`exposition`), or HTTP (`server`).

The page shows a collection until the next one ends. After a failed collection it shows no readings.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from amd_exporter.devices import DeviceHolder, HoldersUnknown, LogicalDevice, complete_devices
from amd_exporter.node import KubernetesNode, NodeError, NodeObject, driver_devices
from amd_exporter.settings import ExporterSettings, label_name
from amd_exporter.sources import (
    TOOL_SECONDS_LIMIT,
    DeviceSource,
    SourceError,
    SourceReading,
    is_tested,
    sources,
)

log = logging.getLogger("amd_exporter")

FAILURES_UNTIL_NOT_READY = 3
NODE_SECONDS = 600.0  # between two reads of the node's object
# The longest time of one collection: each program of the slowest source reaches its limit.
COLLECTION_SECONDS_LIMIT = 8 * TOOL_SECONDS_LIMIT

HolderLookup = Callable[[], Mapping[str, DeviceHolder]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The result of the last collection, and the counts of all collections."""

    devices: tuple[LogicalDevice, ...] = ()
    holders: Mapping[str, DeviceHolder] = field(default_factory=dict)
    extra_labels: Mapping[str, str] = field(default_factory=dict)
    expected: int | None = None
    source: str = ""
    version: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)  # source → reason
    results: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[tuple[str, str], int] = field(default_factory=dict)  # (source, reason)
    dropped: Mapping[str, int] = field(default_factory=dict)
    last_success_at: float | None = None  # Unix time
    duration_seconds: float | None = None
    pods_known: bool | None = None  # None if no socket is set
    node_known: bool | None = None  # None if the node is not read
    failures_in_a_row: int = 0
    collected_at: float = 0.0  # monotonic

    @property
    def is_ready(self) -> bool:
        return self.last_success_at is not None and (
            self.failures_in_a_row < FAILURES_UNTIL_NOT_READY
        )


class SnapshotCollector:
    """Collects, and keeps the last snapshot. One thread collects; any thread may read."""

    def __init__(
        self,
        settings: ExporterSettings,
        tried: Sequence[DeviceSource] | None = None,
        holder_lookup: HolderLookup | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._sources = (
            list(tried) if tried is not None else sources(settings.source, settings.rocm_path)
        )
        self._holder_lookup = holder_lookup
        self._clock = clock
        self._chosen: DeviceSource | None = None
        self._node = (
            KubernetesNode(settings.api_url, settings.node_name) if settings.read_node else None
        )
        self._node_object: NodeObject | None = None
        self._node_read_at = float("-inf")
        self._results: Counter[str] = Counter({"success": 0, "failure": 0})
        self._errors: Counter[tuple[str, str]] = Counter()
        self._dropped: Counter[str] = Counter()
        self._logged: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collection", daemon=True)
        self._snapshot = Snapshot(extra_labels=settings.extra_labels, results=dict(self._results))
        self._started_at = time.monotonic()

    @property
    def snapshot(self) -> Snapshot:
        """The last snapshot; without devices when the next one is overdue."""
        last = self._snapshot
        age = time.monotonic() - last.collected_at
        if age > self._settings.interval_seconds + COLLECTION_SECONDS_LIMIT:
            return replace(last, devices=())
        return last

    @property
    def is_alive(self) -> bool:
        """Whether collections still run: each has a limit of time, so a longer pause is a fault."""
        since = max(self._snapshot.collected_at, self._started_at)
        limit = 3 * (self._settings.interval_seconds + COLLECTION_SECONDS_LIMIT)
        return self._thread.is_alive() and time.monotonic() - since < limit

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the loop and the program that it runs."""
        self._stop.set()
        for source in self._sources:
            source.close()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                self.collect()
            except Exception:
                # An unexpected error counts as a failed collection; the loop continues.
                log.exception("a collection failed")
                self._errors["exporter", "internal"] += 1
                self._fail({}, time.monotonic())
            due += self._settings.interval_seconds
            now = time.monotonic()
            if due < now:  # skip the collections that were missed
                due = now
            self._stop.wait(due - now)

    def collect(self) -> Snapshot:
        """Collect once and return the snapshot, which is shown from now on."""
        started = time.monotonic()
        self._read_node()
        problems: dict[str, str] = {}
        for source in self._to_try():
            try:
                reading = source.read()
            except SourceError as error:
                if self._stop.is_set():
                    break
                problems[source.name] = error.reason
                self._errors[source.name, error.reason] += 1
                self._log_once(source.name, f"{source.name} does not work: {error}")
                continue
            self._choose(source, reading.version)
            return self._succeed(source, reading, problems, started)
        return self._fail(problems, started)

    def _to_try(self) -> list[DeviceSource]:
        """The chosen source; all sources while none works, or after three failures."""
        failing = self._snapshot.failures_in_a_row >= FAILURES_UNTIL_NOT_READY
        if self._chosen is None or failing:
            return self._sources
        return [self._chosen]

    def _choose(self, source: DeviceSource, version: str) -> None:
        if source is not self._chosen:
            self._chosen = source
            for other in self._sources:
                if other is not source:
                    other.close()
        self._log_once("", f"reading GPUs with {source.name} {version}", logging.INFO)
        if not is_tested(source.name, version):
            shown = version or "of unknown version"
            self._log_once(source.name, f"{source.name} {shown} is not among the tested versions")

    def _succeed(
        self,
        source: DeviceSource,
        reading: SourceReading,
        problems: Mapping[str, str],
        started: float,
    ) -> Snapshot:
        devices, dropped = complete_devices(reading.devices)
        self._dropped.update(dropped)
        self._results["success"] += 1
        held, pods_known = self._holders()
        tried = problems or self._snapshot.problems
        return self._finish(
            started,
            devices=devices,
            holders=held,
            source=source.name,
            version=reading.version,
            problems={name: reason for name, reason in tried.items() if name != source.name},
            last_success_at=self._clock(),
            pods_known=pods_known,
            failures_in_a_row=0,
        )

    def _fail(self, problems: Mapping[str, str], started: float) -> Snapshot:
        self._results["failure"] += 1
        last = self._snapshot
        return self._finish(
            started,
            devices=(),
            holders={},
            problems={**last.problems, **problems},
            failures_in_a_row=last.failures_in_a_row + 1,
        )

    def _finish(self, started: float, **changes: Any) -> Snapshot:
        """The snapshot after this collection: its changes, and the counts of all collections."""
        capacity = self._node_object.gpu_capacity if self._node_object else None
        in_driver = len(driver_devices(self._settings.sysfs_path)) or None
        now = time.monotonic()
        self._snapshot = replace(
            self._snapshot,
            extra_labels=self._labels(),
            expected=in_driver if capacity is None else capacity,
            results=dict(self._results),
            errors=dict(self._errors),
            dropped=dict(self._dropped),
            duration_seconds=now - started,
            node_known=self._node_object is not None if self._node else None,
            collected_at=now,
            **changes,
        )
        return self._snapshot

    def _labels(self) -> dict[str, str]:
        labels = dict(self._settings.extra_labels)
        known = self._node_object.labels if self._node_object else {}
        for key in self._settings.node_labels:
            labels[label_name(key)] = known.get(key, "")
        return labels

    def _holders(self) -> tuple[Mapping[str, DeviceHolder], bool | None]:
        if self._holder_lookup is None:
            return {}, None
        try:
            held = self._holder_lookup()
        except HoldersUnknown as error:
            self._log_once("pods", f"pods are not shown: {error}")
            return {}, False
        self._logged.pop("pods", None)
        return held, True

    def _read_node(self) -> None:
        if self._node is None or time.monotonic() - self._node_read_at < NODE_SECONDS:
            return
        try:
            self._node_object = self._node.read()
        except NodeError as error:
            # Keep the last object; the next collection reads it again.
            self._log_once("node", f"the node's object is not read: {error}")
            return
        self._node_read_at = time.monotonic()
        self._logged.pop("node", None)

    def _log_once(self, about: str, text: str, level: int = logging.WARNING) -> None:
        """Log a line when the text changes, not at every collection."""
        if self._logged.get(about) != text:
            self._logged[about] = text
            log.log(level, text)
