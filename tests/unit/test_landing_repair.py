"""A damaged body is repaired by the same response; the damaged bytes are kept, also after a kill.

Put here: names that other bytes have taken.
Not here: finding damage on reading (`test_landing`), or a real bucket (`tests/servers`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import zstandard

from domain.clock import StoppedClock
from domain.interval import Interval
from ingestion.evidence.landing import BodyChanged, Landing, pack_body
from ingestion.kubernetes.journal import JournalWriter
from ingestion.kubernetes.journal_lines import line_of
from ingestion.kubernetes.pull import pull_hours as pull_journal
from ingestion.thanos.pull import pull_hours
from tests.killed_pulls import killed_at
from tests.samples_by_hand import CLUSTER, HOUR, TEN, Server, healthy
from tests.store_in_memory import Killed, MemoryStore
from warehouse.manifest import Attempt
from warehouse.store import FolderStore, Keys, Store, open_store

BODY = b" ".join(hashlib.sha256(b"%d" % number).digest() for number in range(50)) + b"0" * 900
DIGEST = hashlib.sha256(BODY).hexdigest()
KEY = f"objects/{DIGEST[:2]}/{DIGEST}.zst"
# Bytes that a disk error or an edit may have left under the name.
DAMAGES = {
    "a flipped bit": lambda good: good[:40] + bytes([good[40] ^ 4]) + good[41:],
    "cut short": lambda good: good[:-3],
    "nothing": lambda good: b"",
    "another body": lambda good: pack_body(b"forged").stored,
    "of the same size": lambda good: b"\0" * len(good),
}


def folder(tmp_path: Path) -> Store:
    return FolderStore(tmp_path / "landing")


def bucket(tmp_path: Path) -> Store:
    return open_store("memory://landing")


def store_damaged(store: Store, damage: Callable[[bytes], bytes]) -> bytes:
    """A landing of one body that is damaged now; the damaged bytes."""
    good = pack_body(BODY).stored
    assert store.create(KEY, damage(good))
    with pytest.raises(BodyChanged):
        Landing(store).read_body(DIGEST)
    return damage(good)


def kept_aside(store: Store) -> list[bytes]:
    return [store.read(key) for key in store.list("damaged/")]


@pytest.mark.parametrize("opened", [folder, bucket])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_the_same_response_repairs_a_damaged_body(
    tmp_path: Path, opened: Callable[[Path], Store], damage: Callable[[bytes], bytes]
) -> None:
    store = opened(tmp_path)
    damaged = store_damaged(store, damage)
    assert Landing(store).land([pack_body(BODY)]) == 1
    assert Landing(store).read_body(DIGEST) == BODY
    assert store.list("damaged/") == [f"damaged/{DIGEST}.{hashlib.sha256(damaged).hexdigest()}"]
    assert kept_aside(store) == [damaged]
    report = Landing(store).verify()
    assert (report.problems, report.set_aside) == ((), tuple(store.list("damaged/")))
    assert Landing(store).land([pack_body(BODY)]) == 0


@pytest.mark.parametrize("opened", [folder, bucket])
def test_an_intact_body_is_unchanged(tmp_path: Path, opened: Callable[[Path], Store]) -> None:
    """Also one that another version compressed, because only the decompressed bytes count."""
    store = opened(tmp_path)
    otherwise = zstandard.ZstdCompressor(level=19).compress(BODY)
    assert otherwise != pack_body(BODY).stored
    store.create(KEY, otherwise)
    assert Landing(store).land([pack_body(BODY)]) == 0
    assert store.read(KEY) == otherwise
    assert kept_aside(store) == []


def test_an_empty_body_is_a_body(tmp_path: Path) -> None:
    for _ in range(2):
        assert Landing(folder(tmp_path)).land([pack_body(b"")]) == 0


def test_a_body_damaged_twice_is_kept_in_both_forms(tmp_path: Path) -> None:
    landing = Landing(folder(tmp_path))
    for damaged in (b"first", b"second", b"first"):
        landing.land_body(BODY)
        (tmp_path / "landing" / KEY).write_bytes(damaged)
        assert Landing(folder(tmp_path)).land([pack_body(BODY)]) == 1
    assert sorted(kept_aside(folder(tmp_path))) == [b"first", b"second"]


def test_an_object_is_read_only_if_its_name_is_taken(tmp_path: Path) -> None:
    reads: Keys = []

    class Watched(FolderStore):
        def read(self, key: str) -> bytes:
            reads.append(key)
            return super().read(key)

    landing = Landing(Watched(tmp_path))
    landing.land([pack_body(b"%d" % number) for number in range(20)])
    assert reads == []
    Landing(Watched(tmp_path)).land([pack_body(b"7")])
    assert len(reads) == 1


def test_two_repairs_at_once_both_find_an_intact_body(tmp_path: Path) -> None:
    """The second one repairs it between the read and the swap of the first."""
    store = MemoryStore()
    store_damaged(store, lambda good: b"damaged")

    class Slower(MemoryStore):
        def replace(self, key: str, body: bytes, expected: bytes | None) -> bool:
            Landing(store).land([pack_body(BODY)])
            return super().replace(key, body, expected)

    assert Landing(Slower(store.objects)).land([pack_body(BODY)]) == 0
    assert Landing(store).read_body(DIGEST) == BODY
    assert kept_aside(store) == [b"damaged"]


# --- killed --------------------------------------------------------------------------------------


def test_a_repair_in_a_bucket_survives_a_kill_at_any_write() -> None:
    point, died = 0, True
    while died:
        store = MemoryStore()
        damaged = store_damaged(store, DAMAGES["a flipped bit"])
        try:
            Landing(MemoryStore(store.objects, kill_at=point)).land([pack_body(BODY)])
            died = False
        except Killed:
            point += 1
        if store.read(KEY) != damaged:
            assert Landing(store).read_body(DIGEST) == BODY
            assert kept_aside(store) == [damaged]
        Landing(store).land([pack_body(BODY)])
        assert Landing(store).read_body(DIGEST) == BODY
        assert kept_aside(store) == [damaged]
    assert point > 5


def test_a_repair_on_a_disk_survives_a_kill_at_any_step(
    tmp_path: Path,
) -> None:
    step, died = 0, True
    while died:
        step += 1
        store = FolderStore(tmp_path / str(step))
        damaged = store_damaged(store, DAMAGES["a flipped bit"])
        died = killed_at(step, lambda: Landing(store).land([pack_body(BODY)]))  # noqa: B023
        if store.read(KEY) != damaged:
            assert Landing(store).read_body(DIGEST) == BODY
            assert kept_aside(store) == [damaged]
        Landing(store).land([pack_body(BODY)])
        assert Landing(store).read_body(DIGEST) == BODY
        assert kept_aside(store) == [damaged]
    assert step > 15


# --- pulls ---------------------------------------------------------------------------------------


def pull(home: Path) -> Attempt:
    window, late = Interval(TEN, TEN + HOUR), StoppedClock(TEN + timedelta(days=2))
    landing = Landing(FolderStore(home / "landing"))
    client = Server(healthy).client()
    return pull_hours(CLUSTER, window, landing, home / "runs", late, client)


def flip_one_byte(home: Path) -> str:
    """Flip a byte of the largest body; its hash."""
    path = max((home / "landing/objects").glob("*/*"), key=lambda one: (one.stat().st_size, one))
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    return path.stem


def test_a_second_pull_repairs_damage_and_reports_it(tmp_path: Path) -> None:
    first = pull(tmp_path)
    digest = flip_one_byte(tmp_path)
    [problem] = Landing(FolderStore(tmp_path / "landing")).verify().problems
    assert digest in problem.where
    assert (
        "gpu-ledger pull --hours 2026-10-01T10..2026-10-01T11 --cluster c1 --source thanos --all"
        in problem.remedy
    )
    second = pull(tmp_path)
    assert digest in second.answer_sha256s
    assert "bodies_repaired" not in first.draft.facts
    assert second.draft.facts["bodies_repaired"] == 1
    report = Landing(FolderStore(tmp_path / "landing")).verify()
    assert report.problems == ()
    assert [digest in key for key in report.set_aside] == [True]


def test_a_journal_that_is_landed_again_repairs_its_segments(tmp_path: Path) -> None:
    spool, landing = FolderStore(tmp_path / "spool"), FolderStore(tmp_path / "landing")
    writer = JournalWriter(spool, "c1", "collector", "0.1.0")
    writer.add([line_of("watched", TEN, resource="pods", until="2026-10-01T10:59:59Z")])
    writer.flush(TEN)
    window, late = Interval(TEN, TEN + HOUR), StoppedClock(TEN + timedelta(days=2))
    pull_journal("c1", window, spool, Landing(landing), late)
    flip_one_byte(tmp_path)
    [problem] = Landing(landing).verify().problems
    assert "--source kubernetes --all" in problem.remedy
    attempt = pull_journal("c1", window, spool, Landing(landing), late)
    assert attempt.draft.facts == {"bodies_repaired": 1}
    assert Landing(landing).verify().problems == ()
