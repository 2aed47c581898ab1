"""A kill or a refused write at any step loses nothing and duplicates nothing.

Put here: kill points of a pull one by one, a full disk at each write, a real limit on file size.
Not here: the order of syncs inside the store (`test_store`).
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import ingestion.evidence.landing
from domain.clock import StoppedClock
from domain.errors import LedgerError
from domain.interval import Interval
from ingestion.evidence.landing import Landing
from ingestion.thanos.pull import pull_hours
from tests.killed_journals import LINES
from tests.killed_pulls import describe_home, pull
from tests.samples_by_hand import CLUSTER, TEN, Server, healthy
from warehouse.manifest import Outcome
from warehouse.store import FolderStore, StoreUnusable

pytestmark = pytest.mark.deep

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """One entry for each step at which a pull was killed, and a last one without a kill."""
    return each_kill("tests.killed_pulls", tmp_path_factory.mktemp("kills"))


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The same for a journal that was written and landed."""
    return each_kill("tests.killed_journals", tmp_path_factory.mktemp("journals"))


def each_kill(module: str, folder: Path) -> list[dict[str, Any]]:
    run = subprocess.run(
        [sys.executable, "-m", module, str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_kill_points_cover_every_step_of_a_pull(
    kills: list[dict[str, Any]], journals: list[dict[str, Any]]
) -> None:
    for killed in (kills, journals):
        assert len(killed) > 100
        assert [kill["died"] for kill in killed] == [True] * (len(killed) - 1) + [False]
    print(f"{len(kills) - 1} kill points of a pull, {len(journals) - 1} of a journal")
    assert len(kills) + len(journals) > 300


def test_a_journal_killed_anywhere_loses_and_duplicates_no_line(
    journals: list[dict[str, Any]],
) -> None:
    """The durable lines are the first ones; the next collector writes the rest."""
    whole = list(range(LINES))
    for kill in journals:
        assert kill["spooled"] == whole[: len(kill["spooled"])]
        assert kill["landed"] in ([], [whole])
        assert kill["then"] == whole
        assert kill["landed_then"] == [*kill["landed"], whole]
    lengths = [len(kill["spooled"]) for kill in journals]
    assert lengths == sorted(lengths)
    assert set(lengths) == set(range(LINES + 1))


def test_no_kill_leaves_a_manifest_without_its_bytes(kills: list[dict[str, Any]]) -> None:
    assert [kill["left"]["problems"] for kill in kills if kill["left"]["problems"]] == []


def test_a_kill_leaves_the_attempt_complete_or_absent(kills: list[dict[str, Any]]) -> None:
    whole = kills[-1]["left"]["runs"][0]
    assert len(whole) > 5
    for kill in kills:
        assert kill["left"]["attempts"] in ([], ["ok"])
        assert kill["left"]["runs"] in ([], [whole])
        assert kill["left"]["unfinished"] == []


def test_a_written_attempt_stays(kills: list[dict[str, Any]]) -> None:
    counts = [len(kill["left"]["attempts"]) for kill in kills if kill["writers"] == 1]
    assert counts == sorted(counts)
    assert {0, 1} == set(counts)


def test_a_second_pull_lands_the_complete_hour_again(kills: list[dict[str, Any]]) -> None:
    whole = kills[-1]["left"]["runs"][0]
    for kill in kills:
        then = kill["then"]
        assert then["problems"] == []
        assert then["runs"][-1] == whole
        assert then["sequences"] == list(range(1, len(then["sequences"]) + 1))
        assert len(then["sequences"]) == len(kill["left"]["sequences"]) + 1


class FullDisk:
    """A disk that refuses only the n-th of the calls that can fail on a full disk."""

    def __init__(self, patched: pytest.MonkeyPatch, call: int) -> None:
        self.left = call
        for name in ("fsync", "link", "replace", "mkdir"):
            patched.setattr(os, name, self._refusing(getattr(os, name)))

    def _refusing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if os.path.isdir(arguments[0]) and real.__name__ == "mkdir":
                return real(*arguments, **named)  # it exists: nothing would be written
            self.left -= 1
            if self.left == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **named)

        return call


def refused_at(call: int, home: Path) -> StoreUnusable | None:
    """Pull while the n-th call fails as on a full disk; None if there were fewer calls."""
    with pytest.MonkeyPatch.context() as patched:
        # With two writers, one can create the folder that the other could not, and nothing is lost.
        patched.setattr(ingestion.evidence.landing, "WRITERS", 1)
        disk = FullDisk(patched, call)
        try:
            pull(home)
        except StoreUnusable as problem:
            return problem
        assert disk.left > 0, "a full disk was met, and nothing was said"
        return None


def test_a_full_disk_at_any_write_is_reported_and_repaired(tmp_path: Path) -> None:
    call = 1
    while problem := refused_at(call, tmp_path / str(call)):
        assert "No space left on device" in problem.seen
        assert problem.exit_code == 3
        assert describe_home(tmp_path / str(call))["problems"] == []
        assert pull(tmp_path / str(call)).outcome is Outcome.OK
        call += 1
    assert call > 20


def test_a_disk_with_a_limit_on_file_sizes_loses_no_hour(tmp_path: Path) -> None:
    """The kernel itself refuses the write in the middle."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from tests.killed_pulls import pull\n"
        "from warehouse.store import StoreUnusable\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))\n"
        "try:\n    pull(Path(sys.argv[1]))\n"
        "except StoreUnusable as problem:\n    print(problem.seen); sys.exit(3)\n"
    )
    for limit in (60, 2000):
        home = tmp_path / str(limit)
        home.mkdir()
        run = subprocess.run(
            [sys.executable, "-c", code, str(home), str(limit)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert run.returncode == 3, run.stderr
        assert "could not write" in run.stdout
        assert describe_home(home)["problems"] == []
        assert pull(home).outcome is Outcome.OK


def test_a_body_that_cannot_be_landed_leaves_no_manifest(tmp_path: Path) -> None:
    bodies = itertools.count()

    class Refusing(FolderStore):
        def create(self, key: str, body: bytes) -> bool:
            if key.startswith("objects/") and next(bodies) == 2:
                raise StoreUnusable(self.location, "write", OSError(errno.ENOSPC, "no space"))
            return super().create(key, body)

    landing = Landing(Refusing(tmp_path / "landing"))
    window = Interval(TEN, TEN + timedelta(hours=1))
    clock = StoppedClock(TEN + timedelta(days=2))
    with pytest.raises(LedgerError):
        pull_hours(CLUSTER, window, landing, tmp_path / "runs", clock, Server(healthy).client())
    assert landing.attempts() == []
