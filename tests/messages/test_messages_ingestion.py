"""Every message of querying and landing, from an input that causes it, against its golden file.

Put here: errors of stores, homes, leases, settings, the landing and pulls.
Not here: messages of the collector or of other packages.

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from domain.clock import StoppedClock
from domain.errors import LedgerError
from domain.interval import Interval
from ingestion.evidence.landing import APPEND_TRIES_LIMIT, Landing
from ingestion.rebuild import rebuild
from ingestion.settings import load_settings, parse_settings
from ingestion.thanos.pull import pull_hours
from tests.samples_by_hand import CLUSTER, HOUR, TEN, Server, healthy
from warehouse.home import Home
from warehouse.lease import acquire
from warehouse.store import FolderStore, open_store

GOLDEN = Path(__file__).parent / "golden"


def disk_is_full(folder: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", full)
        FolderStore(folder / "landing").create("objects/ab", b"evidence")


def folder_in_use(folder: Path) -> None:
    (folder / "thesis.tex").write_text("precious")
    Home.create(folder)


def storage_unreadable(folder: Path) -> None:
    Home.create(folder / "home", "[storage]\nlanding = 3\n").landing_store()


def home_newer(folder: Path) -> None:
    home = Home.create(folder / "home")
    home.layout_path.write_text('{"layout": 7}\n')
    Home.open(home.path)


def lease_damaged(folder: Path) -> None:
    (folder / "lease.json").write_text("[")
    acquire(FolderStore(folder), "host-a:4711", StoppedClock(TEN), 600)


def lease_held(folder: Path) -> None:
    clock = StoppedClock(TEN)
    acquire(FolderStore(folder), "host-a:4711", clock, 600)
    acquire(FolderStore(folder), "host-b:4712", clock, 600)


def lease_lost(folder: Path) -> None:
    clock = StoppedClock(TEN)
    slow = acquire(FolderStore(folder), "host-a:4711", clock, 600)
    clock.wait_until(TEN + timedelta(minutes=15))
    acquire(FolderStore(folder), "host-b:4712", clock, 600)
    slow.check()


def body_changed(folder: Path) -> None:
    landing = Landing(FolderStore(folder))
    landed = landing.land_body(b"evidence" * 100)
    other = landing.land_body(b"other evidence")
    path = folder / f"objects/{landed.sha256[:2]}/{landed.sha256}.zst"
    path.write_bytes((folder / f"objects/{other.sha256[:2]}/{other.sha256}.zst").read_bytes())
    landing.read_body(landed.sha256)


def pulled(folder: Path) -> Landing:
    landing = Landing(FolderStore(folder / "landing"))
    late = StoppedClock(TEN + timedelta(days=2))
    client = Server(healthy).client()
    pull_hours(CLUSTER, Interval(TEN, TEN + HOUR), landing, folder / "runs", late, client)
    return landing


def manifest_changed(folder: Path) -> None:
    pulled(folder)
    path = folder / "landing/manifests/c1/thanos/0000000001.json"
    path.write_bytes(path.read_bytes() + b"\n")
    Landing(FolderStore(folder / "landing")).attempts()


def chain_busy(folder: Path) -> None:
    class Stubborn(FolderStore):
        """A store in which another writer always writes first."""

        def create(self, key: str, body: bytes) -> bool:
            value = json.loads(body)
            rival = json.dumps(value | {"code_version": "rival"}, sort_keys=True)
            super().create(key, rival.encode())
            return super().create(key, body)

        def list(self, prefix: str) -> list[str]:
            return []

    [attempt] = pulled(folder).attempts()
    Landing(Stubborn(folder / "busy")).append_attempt(attempt.draft)


def decoded_otherwise(folder: Path) -> None:
    landing = pulled(folder)
    [attempt] = landing.attempts()
    bad = landing.land_body(b'{"status":"error","errorType":"internal","error":"later"}')
    answers = tuple(
        replace(answer, sha256=bad.sha256) if answer.ask == "phase" else answer
        for answer in attempt.answers
    )
    landing.append_attempt(replace(attempt.draft, answers=answers))
    rebuild(landing, folder / "runs")


def too_early(folder: Path) -> None:
    now = StoppedClock(TEN + HOUR + timedelta(seconds=90))
    window = Interval(TEN, TEN + HOUR)
    pull_hours(CLUSTER, window, Landing(FolderStore(folder)), folder, now, Server(healthy).client())


def not_whole_hours(folder: Path) -> None:
    window = Interval(TEN, TEN + timedelta(minutes=90))
    late = StoppedClock(TEN + timedelta(days=2))
    pull_hours(
        CLUSTER, window, Landing(FolderStore(folder)), folder, late, Server(healthy).client()
    )


PROVOKED: dict[str, Callable[[Path], object]] = {
    "VALUE-001-key": lambda folder: FolderStore(folder).create("manifests/../../etc/passwd", b""),
    "LAND-001-missing": lambda folder: FolderStore(folder).read("objects/ab/abcd.zst"),
    "STORE-001": disk_is_full,
    "CONF-001-url": lambda folder: open_store("ftp://user:secret@host/landing"),
    "FILE-001": lease_damaged,
    "HOME-001": lambda folder: Home.open(folder),
    "HOME-001-in-use": folder_in_use,
    "CONF-001-storage": storage_unreadable,
    "VERSION-001-home": home_newer,
    "LOCK-001": lease_held,
    "LOCK-001-lost": lease_lost,
    "CONF-001": lambda folder: parse_settings('[thanos.hub]\nurl = "https://hub"\ntimeout = 3\n'),
    "CONF-001-unreadable": lambda folder: load_settings(folder / "config.toml"),
    "LAND-001": body_changed,
    "LAND-001-manifest": manifest_changed,
    "LOCK-001-chain": chain_busy,
    "VERSION-001": decoded_otherwise,
    "COMMAND-001-hours": not_whole_hours,
    "COMMAND-001-early": too_early,
}


@pytest.mark.parametrize("code", PROVOKED)
def test_the_message_has_place_finding_reason_and_remedy(code: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as caught:
        PROVOKED[code](tmp_path)
    message = caught.value.message().replace(str(tmp_path), "HOME") + "\n"
    assert code.startswith(caught.value.code)
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        (GOLDEN / f"{code}.txt").write_text(message)
    assert message == (GOLDEN / f"{code}.txt").read_text()


def test_an_append_to_a_chain_fails_after_a_limited_number_of_tries() -> None:
    assert APPEND_TRIES_LIMIT <= 100
