"""The sources of readings on a node, and which of them works.

Put here: running AMD's tools and library with limits, and choosing between them.
Not here: what their output means (`amd_smi`, `rocm_smi`), or when to collect (`collection`).

Every program runs in a process group of its own, for a limited time and with a limited output, and
is killed with its children when it exceeds either. A program that the driver holds and that cannot
be killed is not started a second time.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from amd_exporter import amd_smi, rocm_smi
from amd_exporter.devices import DEVICES_LIMIT, Device

TOOL_SECONDS_LIMIT = 10.0
OUTPUT_BYTES_LIMIT = 16 * 1024 * 1024  # amd-smi writes 9 KB per GPU
# Names and partitions are read again this often, and whenever the tool or its GPUs have changed.
INVENTORY_COLLECTIONS = 20
# Major versions of the library and of amd-smi, and ROCm versions of rocm-smi, whose output the
# tests hold. Others are read too, with a warning and a metric.
TESTED_VERSIONS: Mapping[str, frozenset[str]] = {
    "amdsmi": frozenset({"24", "25", "26"}),
    "amd-smi": frozenset({"24", "25", "26"}),
    "rocm-smi": frozenset({"4.3", "5.7", "6.0"}),
}
AMD_SMI_READINGS = ("--usage", "--power", "--mem-usage", "--temperature", "--clock")
# Older tools and virtual machines refuse an option that they do not have: then all is read.
AMD_SMI_METRICS = (
    ("metric", *AMD_SMI_READINGS, "--energy", "--ecc", "--json"),
    ("metric", *AMD_SMI_READINGS, "--json"),
    ("metric", "--json"),
)
AMD_SMI_STATICS = (("static", "--asic", "--partition", "--json"), ("static", "--asic", "--json"))


class SourceError(Exception):
    """A source gave no devices: `reason` is one of a fixed few, the text says what happened."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source gave: devices, and the version that gave them."""

    devices: list[Device]
    version: str


class Source(Protocol):
    """One way to read the GPUs of this node."""

    name: str

    def read(self) -> Reading: ...

    def close(self) -> None: ...


# --- running programs -------------------------------------------------------------------------


class Runner:
    """Runs the programs of one source, one at a time."""

    def __init__(self, seconds_limit: float = TOOL_SECONDS_LIMIT) -> None:
        self.seconds_limit = seconds_limit
        self._running: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program, unless the one before it still cannot be killed."""
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
        """What a program writes to standard output, if it ends in time and with 0."""
        process = self.start(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with self._killed_at_the_end(process):
            assert process.stdout is not None
            assert process.stderr is not None
            output, errors = self._read_both(process, command[0])
            try:
                status = process.wait(self.seconds_limit)
            except subprocess.TimeoutExpired:
                raise self.late(command[0]) from None
        if status != 0:
            said = " ".join(errors.decode(errors="replace").split())[-300:]
            raise SourceError("exit_status", f"{' '.join(command)} ended with {status}: {said}")
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

    @contextmanager
    def _killed_at_the_end(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        try:
            yield
        finally:
            self.kill()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def kill(self) -> None:
        """End the program that runs, with its children."""
        process = self._running
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):  # it and its children have ended
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            return  # the driver holds it: it stays the one that runs
        self._running = None


def parse_json(output: str, name: str) -> Any:
    """The JSON of a tool's output; text before it is skipped."""
    starts = [at for at in (output.find("["), output.find("{")) if at >= 0]
    if not starts:
        raise SourceError("not_json", f"{name} wrote no JSON but {output[:100]!r}")
    try:
        # Text after the JSON does no harm either.
        document, _ = json.JSONDecoder().raw_decode(output, min(starts))
    except (ValueError, RecursionError) as error:
        raise SourceError("not_json", f"{name} wrote invalid JSON: {error}") from error
    return document


def checked(devices: list[Device], name: str) -> list[Device]:
    """The devices, if there are some and not absurdly many."""
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
    """AMD's Python library, in a process of its own that stays."""

    name = "amdsmi"

    def __init__(self, folder: Path, runner: Runner | None = None) -> None:
        self._folder = folder
        self._runner = runner or Runner()
        self._process: subprocess.Popen[bytes] | None = None
        self._read_count = 0

    def read(self) -> Reading:
        if not (self._folder / "amdsmi").is_dir():
            raise SourceError("not_found", f"{self._folder} has no amdsmi library")
        if self._read_count % INVENTORY_COLLECTIONS == 0:
            self.close()  # partitions are only seen by a library that starts anew
        try:
            answer = parse_json(self._ask(), self.name)
        except SourceError:
            self.close()
            raise
        if not isinstance(answer, dict) or "error" in answer:
            self.close()
            raise SourceError("library_error", f"amdsmi: {answer.get('error', 'no answer')}")
        self._read_count += 1
        gpus = answer.get("gpus")
        return Reading(
            checked(amd_smi.read(gpus, gpus, gpus), self.name), str(answer.get("version", ""))
        )

    def _ask(self) -> str:
        if self._process is None or self._process.poll() is not None:
            command = [sys.executable, "-m", "amd_exporter.library", str(self._folder)]
            # Its standard error is the exporter's: the library explains itself there.
            self._process = self._runner.start(command, stdin=subprocess.PIPE)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended; its last line says why
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
    """`amd-smi`: one start per collection, three more when something has changed."""

    name = "amd-smi"

    def __init__(self, folder: Path, runner: Runner | None = None) -> None:
        self._folder = folder
        self._runner = runner or Runner()
        self._inventory: _Inventory | None = None
        self._metric_variants = list(AMD_SMI_METRICS)

    def read(self) -> Reading:
        path = _program("amd-smi", self._folder)
        state = _file_state(path)
        metric = self._first_that_works(path, self._metric_variants)
        indexes = tuple(amd_smi.index_of(entry) for entry in amd_smi.gpus(metric))
        known = self._inventory
        if known is None or not known.holds_for(state, indexes):
            known = self._inventory = self._read_inventory(path, state, indexes)
        known.uses += 1
        devices = checked(amd_smi.read(metric, known.listed, known.static), self.name)
        return Reading(devices, known.version)

    def _read_inventory(
        self, path: str, state: tuple[int, ...], indexes: tuple[str, ...]
    ) -> _Inventory:
        version, _ = amd_smi.versions(self._json(path, "version", "--json"))
        listed = self._json(path, "list", "--json")
        static = self._first_that_works(path, list(AMD_SMI_STATICS))
        return _Inventory(state, indexes, version, listed, static)

    def _first_that_works(self, path: str, variants: list[tuple[str, ...]]) -> Any:
        """The output of the first variant that the tool accepts; it is tried first from then on."""
        for position, variant in enumerate(variants, 1):
            try:
                document = self._json(path, *variant)
            except SourceError as error:
                # A tool that accepts none of them is broken, and forgets nothing.
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
    """What amd-smi says once about its GPUs, and of which tool and GPUs that is true."""

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

    def read(self) -> Reading:
        path = _program("rocm-smi", self._folder)
        # The options of single readings differ between versions; all of them have this one.
        document = parse_json(self._runner.output([path, "-a", "--json"]), self.name)
        return Reading(checked(rocm_smi.read(document), self.name), _rocm_version(self._folder))

    def close(self) -> None:
        self._runner.kill()


def _program(name: str, folder: Path) -> str:
    """The path of a tool: of the ROCm installation, else of the PATH."""
    path = shutil.which(name, path=f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    if path is None:
        raise SourceError("not_found", f"{name} is neither in {folder / 'bin'} nor on the PATH")
    return path


def _file_state(path: str) -> tuple[int, ...]:
    """Differs after another version was installed at the same place."""
    state = Path(path).stat()
    return state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size


def _rocm_version(folder: Path) -> str:
    """Such as 6.0.2, of `.info/version`; rocm-smi's own number does not say which ROCm it is of."""
    try:
        return (folder / ".info" / "version").read_text("utf-8").strip().partition("-")[0][:32]
    except (OSError, UnicodeDecodeError):
        return ""


def is_tested(name: str, version: str) -> bool:
    """Whether the tests hold the output of this version of a source."""
    parts = version.split(".")
    return not TESTED_VERSIONS[name].isdisjoint({parts[0], ".".join(parts[:2])})


def sources(wanted: str, rocm: Path) -> list[Source]:
    """The sources to try, in order; one alone where it was chosen."""
    every: list[Source] = [
        AmdSmiLibrary(rocm / "share" / "amd_smi"),
        AmdSmiTool(rocm),
        RocmSmiTool(rocm),
    ]
    return [source for source in every if wanted in ("auto", source.name)]
