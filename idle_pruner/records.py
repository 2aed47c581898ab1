"""The records of the pruner: one JSON object per line, appended and never changed.

Put here: writing a record durably, reading them back, and the stops that have not ended.
Not here: the reason for a record (`idle_pruner.pruner`), or money (`orchestration`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from domain.errors import FileDamaged
from domain.interval import format_instant


class PruneRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of a workload that was found idle."""

    at: str
    # idle, active, noticed, stopped, not_stopped, gone, not_gone, restored, not_restored
    event: str
    kind: str
    namespace: str
    name: str
    api_version: str = ""
    uid: str = ""
    reasons: list[str] = []
    owner_chain: list[str] = []
    pods: list[str] = []  # UIDs
    device_count: int = 0
    previous_state: dict[str, Any] = {}
    not_before: str = ""
    evidence: dict[str, Any] = {}

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.namespace, self.name


@dataclass(frozen=True, slots=True)
class WorkloadStop:
    """A stopped workload, from its stop to its restore."""

    stopped: PruneRecord
    restored: PruneRecord | None


class Records:
    """The records of one file. Several processes may append to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: PruneRecord) -> None:
        """Write one line; it is on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        line = msgspec.json.encode(record) + b"\n"
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # an earlier process was killed within its line
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self) -> list[PruneRecord]:
        """Every record. A last line without its end was never acknowledged, and is left out."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        lines = content.split(b"\n")
        records = []
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                records.append(msgspec.json.decode(line, type=PruneRecord))
            except (ValueError, RecursionError):
                if number != len(lines) and not _is_torn(line):
                    raise FileDamaged(
                        where=f"{self.path}, line {number}",
                        seen="the line is not a record of the idle pruner",
                        why="the stopped workloads and their previous replicas are read from it",
                        remedy="restore the file from a backup, or remove the damaged line",
                    ) from None
        return records

    def stops(self) -> list[WorkloadStop]:
        """Every stop with its restore, the newest first."""
        return stops_in(self.read())


def _is_torn(line: bytes) -> bool:
    """Whether a line is the beginning of a record whose writer was killed."""
    return line.startswith(b'{"at":') and not line.endswith(b"}")


def stops_in(records: Sequence[PruneRecord]) -> list[WorkloadStop]:
    """Every stop with its restore. A stop is recorded before it is tried, so that none is lost."""
    open_stops: dict[tuple[str, str, str], PruneRecord] = {}
    stops: list[WorkloadStop] = []
    for record in records:
        if record.event == "stopped":
            open_stops.setdefault(record.key, record)
        elif record.event == "not_stopped":
            open_stops.pop(record.key, None)
        elif record.event == "restored" and record.key in open_stops:
            stops.append(WorkloadStop(open_stops.pop(record.key), record))
    stops += [WorkloadStop(stopped, None) for stopped in open_stops.values()]
    return sorted(stops, key=lambda stop: stop.stopped.at, reverse=True)


def instant_text(instant: datetime) -> str:
    """A time of a record, in whole seconds."""
    return format_instant(instant.replace(microsecond=0))
