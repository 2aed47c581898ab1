"""The sources of readings on a node, and the choice of a working one.

Put here: running AMD's tools and library with limits, and choosing between them.
Not here: reading their output (`amd_smi`, `rocm_smi`), or when to collect (`collection`).

Each program runs in its own process group, with a limit of time and of output. A program that
exceeds a limit is killed with its children. A program that cannot be killed because it waits for
the driver is not started a second time.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from amd_exporter import amd_smi, rocm_smi
from amd_exporter.devices import DEVICES_LIMIT, LogicalDevice

TOOL_SECONDS_LIMIT = 10.0
OUTPUT_BYTES_LIMIT = 16 * 1024 * 1024  # amd-smi writes 9 KB per GPU
# Names and partitions are read after this many collections, and when the tool or its GPUs change.
INVENTORY_COLLECTIONS = 20
# The versions whose output is covered by tests: major versions of the library and of amd-smi, and
# ROCm versions for rocm-smi. Other versions are read too, with a warning and a metric.
TESTED_VERSIONS: Mapping[str, frozenset[str]] = {
    "amdsmi": frozenset({"24", "25", "26"}),
    "amd-smi": frozenset({"24", "25", "26"}),
    "rocm-smi": frozenset({"4.3", "5.7", "6.0"}),
}
AMD_SMI_READINGS = ("--usage", "--power", "--mem-usage", "--temperature", "--clock")
# Older tools and virtual machines refuse options that they do not have; then all metrics are read.
AMD_SMI_METRICS = (
    ("metric", *AMD_SMI_READINGS, "--energy", "--ecc", "--json"),
    ("metric", *AMD_SMI_READINGS, "--json"),
    ("metric", "--json"),
)
AMD_SMI_STATICS = (("static", "--asic", "--partition", "--json"), ("static", "--asic", "--json"))


class SourceError(Exception):
    """A source returned no devices. `reason` is one of a fixed set; the text has the details."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SourceReading:
    """The devices that a source returned, and its version."""

    devices: list[LogicalDevice]
    version: str


class DeviceSource(Protocol):
    """One way to read the GPUs of this node."""

    name: str

    def read(self) -> SourceReading: ...

    def close(self) -> None: ...


# --- running programs -------------------------------------------------------------------------


class Runner:
    """Runs the programs of one source, one at a time."""

    def __init__(self, seconds_limit: float = TOOL_SECONDS_LIMIT) -> None:
        self.seconds_limit = seconds_limit
        self._running: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program, unless the previous one still cannot be killed."""
        if self._running is not None and self._running.poll() is None:
            raise SourceError(
                "stuck",
                f"{command[0]} was not started: process {self._running.pid} did not end when it "
                "was killed, the driver holds it",
            )
        try:
            self._running = subprocess.Popen(
                list(command),
                stdout=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
                **options,
            )
        except OSError as error:
            raise SourceError("not_found", f"{command[0]} cannot be started: {error}") from error
        return self._running

    def output(self, command: Sequence[str]) -> str:
        """The standard output of a program that ends in time and with status 0."""
        process = self.start(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            output, errors = self._read_both(process, command[0])
            status = process.wait(self.seconds_limit)
        except subprocess.TimeoutExpired:
            raise self.late(command[0]) from None
        finally:
            self.kill()
            process.stdout.close()
            process.stderr.close()
        if status != 0:
            text = " ".join(errors.decode(errors="replace").split())[-300:]
            raise SourceError("exit_status", f"{' '.join(command)} ended with {status}: {text}")
        return output.decode("utf-8", errors="replace")

    def _read_both(self, process: subprocess.Popen[bytes], name: str) -> tuple[bytes, bytes]:
        parts: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        deadline = time.monotonic() + self.seconds_limit
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, 1)  # type: ignore[arg-type]
            selector.register(process.stderr, selectors.EVENT_READ, 2)  # type: ignore[arg-type]
            while selector.get_map():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self.late(name)
                for key, _ in selector.select(left):
                    chunk = os.read(key.fd, 65536)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    parts[key.data] += chunk
                if len(parts[1]) + len(parts[2]) > OUTPUT_BYTES_LIMIT:
                    raise SourceError(
                        "too_large", f"{name} wrote more than {OUTPUT_BYTES_LIMIT} bytes"
                    )
        return bytes(parts[1]), bytes(parts[2])

    def late(self, name: str) -> SourceError:
        return SourceError("timeout", f"{name} did not end within {self.seconds_limit:g} s")

    def kill(self) -> None:
        """Kill the running program and its children."""
        process = self._running
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):  # all of them have ended
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            return  # it waits for the driver and stays the running program
        self._running = None


def parse_json(output: str, name: str) -> Any:
    """The JSON in the output of a tool; text before it is skipped."""
    starts = [at for at in (output.find("["), output.find("{")) if at >= 0]
    if not starts:
        raise SourceError("not_json", f"{name} wrote no JSON but {output[:100]!r}")
    try:
        # Text after the JSON is ignored as well.
        document, _ = json.JSONDecoder().raw_decode(output, min(starts))
    except (ValueError, RecursionError) as error:
        raise SourceError("not_json", f"{name} wrote invalid JSON: {error}") from error
    return document


def require_devices(devices: list[LogicalDevice], name: str) -> list[LogicalDevice]:
    """The devices, if their number is between 1 and the limit."""
    if not devices:
        raise SourceError(
            "no_devices", f"{name} shows no GPU; see whether this container may read it"
        )
    if len(devices) > DEVICES_LIMIT:
        raise SourceError(
            "too_large", f"{name} shows {len(devices)} GPUs, more than {DEVICES_LIMIT}"
        )
    return devices


# --- the three sources ------------------------------------------------------------------------


class AmdSmiLibrary:
    """AMD's Python library, in a process of its own that keeps running."""

    name = "amdsmi"

    def __init__(self, folder: Path, runner: Runner | None = None) -> None:
        self._folder = folder
        self._runner = runner or Runner()
        self._process: subprocess.Popen[bytes] | None = None
        self._read_count = 0

    def read(self) -> SourceReading:
        if not (self._folder / "amdsmi").is_dir():
            raise SourceError("not_found", f"{self._folder} has no amdsmi library")
        if self._read_count % INVENTORY_COLLECTIONS == 0:
            self.close()  # only a new process of the library sees new partitions
        try:
            answer = parse_json(self._query(), self.name)
        except SourceError:
            self.close()
            raise
        if not isinstance(answer, dict) or "error" in answer:
            self.close()
            raise SourceError("library_error", f"amdsmi: {answer.get('error', 'no answer')}")
        self._read_count += 1
        gpus = answer.get("gpus")
        return SourceReading(
            require_devices(amd_smi.read(gpus, gpus, gpus), self.name),
            str(answer.get("version", "")),
        )

    def _query(self) -> str:
        if self._process is None or self._process.poll() is not None:
            command = [sys.executable, "-m", "amd_exporter.library", str(self._folder)]
            # The process writes its errors to the exporter's standard error.
            self._process = self._runner.start(command, stdin=subprocess.PIPE)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # the process has ended; its last line has the reason
            process.stdin.write(b"\n")
            process.stdin.flush()
        line = bytearray()
        deadline = time.monotonic() + self._runner.seconds_limit
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._runner.late(self.name)
                chunk = os.read(process.stdout.fileno(), 65536)
                if not chunk:
                    raise SourceError("crashed", "amdsmi ended without an answer")
                line += chunk
                if len(line) > OUTPUT_BYTES_LIMIT:
                    raise SourceError(
                        "too_large", f"amdsmi wrote more than {OUTPUT_BYTES_LIMIT} bytes"
                    )
        return line.decode("utf-8", errors="replace")

    def close(self) -> None:
        process, self._process = self._process, None
        self._runner.kill()
        for pipe in (process.stdin, process.stdout) if process else ():
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._read_count = 0


class AmdSmiTool:
    """`amd-smi`: one start per collection, and three more after a change."""

    name = "amd-smi"

    def __init__(self, folder: Path, runner: Runner | None = None) -> None:
        self._folder = folder
        self._runner = runner or Runner()
        self._inventory: _Inventory | None = None
        self._metric_variants = list(AMD_SMI_METRICS)

    def read(self) -> SourceReading:
        path = _program("amd-smi", self._folder)
        state = _file_state(path)
        metric = self._first_that_works(path, self._metric_variants)
        indexes = tuple(amd_smi.index_of(entry) for entry in amd_smi.gpus(metric))
        known = self._inventory
        if known is None or not known.holds_for(state, indexes):
            known = self._inventory = self._read_inventory(path, state, indexes)
        known.uses += 1
        devices = require_devices(amd_smi.read(metric, known.listed, known.static), self.name)
        return SourceReading(devices, known.version)

    def _read_inventory(
        self, path: str, state: tuple[int, ...], indexes: tuple[str, ...]
    ) -> _Inventory:
        version, _ = amd_smi.versions(self._json(path, "version", "--json"))
        listed = self._json(path, "list", "--json")
        static = self._first_that_works(path, list(AMD_SMI_STATICS))
        return _Inventory(state, indexes, version, listed, static)

    def _first_that_works(self, path: str, variants: list[tuple[str, ...]]) -> Any:
        """The output of the first variant that the tool accepts; later calls start with it."""
        for position, variant in enumerate(variants, 1):
            try:
                document = self._json(path, *variant)
            except SourceError as error:
                # If the tool accepts no variant, it is broken: keep the order of the variants.
                if error.reason != "exit_status" or position == len(variants):
                    raise
            else:
                del variants[: position - 1]
                return document
        raise AssertionError("there is no variant")

    def _json(self, path: str, *arguments: str) -> Any:
        return parse_json(self._runner.output([path, *arguments]), self.name)

    def close(self) -> None:
        self._runner.kill()
        self._inventory = None
        self._metric_variants = list(AMD_SMI_METRICS)


@dataclass(slots=True)
class _Inventory:
    """Names and partitions from amd-smi, with the state of the tool and GPUs they belong to."""

    state: tuple[int, ...]
    indexes: tuple[str, ...]
    version: str
    listed: Any
    static: Any
    uses: int = 0

    def holds_for(self, state: tuple[int, ...], indexes: tuple[str, ...]) -> bool:
        return (self.state, self.indexes) == (state, indexes) and self.uses < INVENTORY_COLLECTIONS


class RocmSmiTool:
    """`rocm-smi`, which AMD only maintains since ROCm 7."""

    name = "rocm-smi"

    def __init__(self, folder: Path, runner: Runner | None = None) -> None:
        self._folder = folder
        self._runner = runner or Runner()

    def read(self) -> SourceReading:
        path = _program("rocm-smi", self._folder)
        # The options for single readings differ between versions; all versions have this one.
        document = parse_json(self._runner.output([path, "-a", "--json"]), self.name)
        return SourceReading(
            require_devices(rocm_smi.read(document), self.name), _rocm_version(self._folder)
        )

    def close(self) -> None:
        self._runner.kill()


def _program(name: str, folder: Path) -> str:
    """The path of a tool: in the ROCm installation, otherwise in the PATH."""
    path = shutil.which(name, path=f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    if path is None:
        raise SourceError("not_found", f"{name} is neither in {folder / 'bin'} nor on the PATH")
    return path


def _file_state(path: str) -> tuple[int, ...]:
    """A value that changes when another version is installed at the same path."""
    state = Path(path).stat()
    return state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size


def _rocm_version(folder: Path) -> str:
    """The ROCm version from `.info/version`, such as 6.0.2; rocm-smi does not report it."""
    try:
        return (folder / ".info" / "version").read_text("utf-8").strip().partition("-")[0][:32]
    except (OSError, UnicodeDecodeError):
        return ""


def is_tested(name: str, version: str) -> bool:
    """Whether the tests cover the output of this version of a source."""
    parts = version.split(".")
    return not TESTED_VERSIONS[name].isdisjoint({parts[0], ".".join(parts[:2])})


def sources(wanted: str, rocm: Path) -> list[DeviceSource]:
    """The sources to try, in order; only the chosen source if one was chosen."""
    every: list[DeviceSource] = [
        AmdSmiLibrary(rocm / "share" / "amd_smi"),
        AmdSmiTool(rocm),
        RocmSmiTool(rocm),
    ]
    return [source for source in every if wanted in ("auto", source.name)]
