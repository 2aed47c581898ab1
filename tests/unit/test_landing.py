"""The landing: bodies named by their hash, attempts in a chain, and changed bytes that are found.

Put here: the behaviour of `ingestion.evidence.landing` and `warehouse.manifest`.
Not here: kill points and full disks (`test_landing_crashes`), the store itself (`test_store`).
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.decisions.rows import Source
from domain.interval import Interval
from ingestion.evidence.hour_ledger import hour_ledger
from ingestion.evidence.landing import BodyChanged, Landing, ManifestChanged
from warehouse.manifest import (
    Attempt,
    AttemptDraft,
    Hour,
    Outcome,
    QueryResponse,
    Sampling,
    whole_hours,
    worst,
)
from warehouse.store import FolderStore, KeyNotAllowed, ObjectMissing, StoreUnusable

TEN = datetime(2026, 10, 1, 10, tzinfo=UTC)


def draft(
    cluster_id: str = "c1", hour: datetime = TEN, outcome: Outcome = Outcome.OK, sha256: str = ""
) -> AttemptDraft:
    return AttemptDraft(
        cluster_id=cluster_id,
        source=Source.THANOS,
        asked_at=hour + timedelta(hours=1, minutes=10),
        answered_at=hour + timedelta(hours=1, minutes=10, seconds=2),
        window=Interval(hour, hour + timedelta(hours=1)),
        code_version="0.1.0",
        sampling=Sampling(30, 30),
        answers=(
            QueryResponse("up", "up[1h]", 200, sha256, 12, 9, warnings=("one store is down",)),
        ),
        hours=(Hour(hour, outcome, "", 1, 120, {"up": (1, 120)}),),
    )


def landing(tmp_path: Path) -> Landing:
    return Landing(FolderStore(tmp_path))


def test_a_body_is_named_by_the_hash_of_its_bytes(tmp_path: Path) -> None:
    body = b'{"status":"success"}'
    landed = landing(tmp_path).land_body(body)
    assert landed.sha256 == hashlib.sha256(body).hexdigest()
    assert landed.byte_count == 20
    assert landing(tmp_path).read_body(landed.sha256) == body


def test_landing_the_same_bytes_twice_keeps_one_object(tmp_path: Path) -> None:
    for _ in range(2):
        landing(tmp_path).land_body(b"same")
    assert len(FolderStore(tmp_path).list("objects/")) == 1


@pytest.mark.parametrize("place", [0, 5, -1])
def test_a_changed_byte_is_found_on_reading_and_names_its_file(tmp_path: Path, place: int) -> None:
    landed = landing(tmp_path).land_body(b"evidence" * 100)
    path = tmp_path / f"objects/{landed.sha256[:2]}/{landed.sha256}.zst"
    changed = bytearray(path.read_bytes())
    changed[place] ^= 1
    path.write_bytes(changed)
    with pytest.raises(BodyChanged) as caught:
        landing(tmp_path).read_body(landed.sha256)
    assert str(path) in caught.value.where


def test_a_body_under_the_name_of_another_is_found_on_reading(tmp_path: Path) -> None:
    landed, other = (landing(tmp_path).land_body(body) for body in (b"evidence", b"forged"))
    paths = [tmp_path / f"objects/{one.sha256[:2]}/{one.sha256}.zst" for one in (landed, other)]
    paths[0].write_bytes(paths[1].read_bytes())
    with pytest.raises(BodyChanged, match="its bytes hash to"):
        landing(tmp_path).read_body(landed.sha256)


def test_a_truncated_body_is_found_on_reading(tmp_path: Path) -> None:
    landed = landing(tmp_path).land_body(b"evidence" * 100)
    path = tmp_path / f"objects/{landed.sha256[:2]}/{landed.sha256}.zst"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(BodyChanged):
        landing(tmp_path).read_body(landed.sha256)


def test_a_body_larger_than_the_limit_is_refused_before_decompression(
    tmp_path: Path,
) -> None:
    # A zstd frame header: magic, descriptor with an 8-byte content size, window, 2**62 bytes.
    bomb = b"\x28\xb5\x2f\xfd\xc0\x00" + (2**62).to_bytes(8, "little")
    digest = "ab" * 32
    path = tmp_path / f"objects/ab/{digest}.zst"
    path.parent.mkdir(parents=True)
    path.write_bytes(bomb)
    with pytest.raises(BodyChanged, match="claims"):
        landing(tmp_path).read_body(digest)


def test_attempts_of_one_source_form_one_chain(tmp_path: Path) -> None:
    first = landing(tmp_path).append_attempt(draft())
    second = landing(tmp_path).append_attempt(draft(hour=TEN + timedelta(hours=1)))
    other = landing(tmp_path).append_attempt(draft(cluster_id="c2"))
    assert (first.sequence, first.previous_sha256) == (1, "")
    assert (second.sequence, second.previous_sha256) == (2, first.attempt_id)
    assert (other.sequence, other.previous_sha256) == (1, "")


def test_the_attempt_id_is_the_hash_of_the_manifest_file(tmp_path: Path) -> None:
    attempt = landing(tmp_path).append_attempt(draft())
    body = (tmp_path / "manifests/c1/thanos/0000000001.json").read_bytes()
    assert attempt.attempt_id == hashlib.sha256(body).hexdigest()


def test_a_manifest_is_canonical_json_with_sorted_keys_and_a_newline(tmp_path: Path) -> None:
    landing(tmp_path).append_attempt(draft())
    body = (tmp_path / "manifests/c1/thanos/0000000001.json").read_bytes()
    value = json.loads(body)
    again = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert body == again.encode() + b"\n"
    assert value["window"] == {"from": "2026-10-01T10:00:00Z", "until": "2026-10-01T11:00:00Z"}
    assert value["hours"][0]["by_metric"] == {"up": [1, 120]}


def test_an_attempt_survives_a_round_trip(tmp_path: Path) -> None:
    written = landing(tmp_path).append_attempt(draft(outcome=Outcome.DEGRADED))
    assert landing(tmp_path).attempts() == [written]
    assert landing(tmp_path).attempts("c1", Source.THANOS) == [written]
    assert landing(tmp_path).attempts("c1", Source.KUBERNETES) == []
    assert landing(tmp_path).attempts("c2") == []


def test_two_writers_of_one_chain_both_keep_their_attempts(tmp_path: Path) -> None:
    left, right = landing(tmp_path), landing(tmp_path)
    for number in range(3):
        left.append_attempt(draft(hour=TEN + timedelta(hours=number)))
        right.append_attempt(draft(hour=TEN + timedelta(hours=number)))
    assert [attempt.sequence for attempt in left.attempts()] == [1, 2, 3, 4, 5, 6]
    assert landing(tmp_path).verify().problems == ()


def test_a_cluster_id_cannot_lead_out_of_the_landing(tmp_path: Path) -> None:
    for cluster_id in ("..", "a/../../b", "", "/etc"):
        with pytest.raises(KeyNotAllowed):
            landing(tmp_path).append_attempt(draft(cluster_id=cluster_id))


def chain_of(tmp_path: Path, count: int) -> list[Attempt]:
    body = landing(tmp_path).land_body(b"answer")
    return [
        landing(tmp_path).append_attempt(
            draft(hour=TEN + timedelta(hours=number), sha256=body.sha256)
        )
        for number in range(count)
    ]


def test_an_unchanged_landing_has_no_problems(tmp_path: Path) -> None:
    chain_of(tmp_path, 3)
    report = landing(tmp_path).verify()
    assert (report.attempt_count, report.body_count, report.problems) == (3, 1, ())


def test_verify_names_an_edited_manifest(tmp_path: Path) -> None:
    chain_of(tmp_path, 3)
    path = tmp_path / "manifests/c1/thanos/0000000002.json"
    path.write_bytes(path.read_bytes().replace(b'"outcome":"ok"', b'"outcome":"empty"'))
    [problem] = landing(tmp_path).verify().problems
    assert isinstance(problem, ManifestChanged)
    assert problem.where == str(path)


def test_verify_names_a_manifest_that_is_not_canonical(tmp_path: Path) -> None:
    chain_of(tmp_path, 3)
    path = tmp_path / "manifests/c1/thanos/0000000002.json"
    path.write_bytes(path.read_bytes() + b"\n")
    [problem] = landing(tmp_path).verify().problems
    assert isinstance(problem, ManifestChanged)
    assert problem.where == str(path)


@pytest.mark.parametrize("sequence", [1, 2])
def test_verify_names_a_removed_manifest(tmp_path: Path, sequence: int) -> None:
    chain_of(tmp_path, 3)
    path = tmp_path / f"manifests/c1/thanos/{sequence:010d}.json"
    path.unlink()
    [problem] = landing(tmp_path).verify().problems
    assert isinstance(problem, ObjectMissing)
    assert problem.where == str(path)


def test_verify_names_a_manifest_moved_to_another_chain(tmp_path: Path) -> None:
    chain_of(tmp_path, 1)
    moved = tmp_path / "manifests/c9/thanos/0000000001.json"
    moved.parent.mkdir(parents=True)
    (tmp_path / "manifests/c1/thanos/0000000001.json").rename(moved)
    [problem] = landing(tmp_path).verify().problems
    assert problem.where == str(moved)


def test_verify_names_a_missing_body_and_accepts_one_without_a_manifest(tmp_path: Path) -> None:
    [attempt] = chain_of(tmp_path, 1)
    landing(tmp_path).land_body(b"landed before a crash")
    digest = attempt.answer_sha256s[0]
    (tmp_path / f"objects/{digest[:2]}/{digest}.zst").unlink()
    report = landing(tmp_path).verify()
    assert [type(problem) for problem in report.problems] == [ObjectMissing]
    assert digest in report.problems[0].where


def test_a_window_is_one_to_twenty_four_whole_hours() -> None:
    assert whole_hours(Interval(TEN, TEN + timedelta(hours=2))) == [TEN, TEN + timedelta(hours=1)]
    assert len(whole_hours(Interval(TEN, TEN + timedelta(hours=24)))) == 24
    for started_at, seconds in ((TEN, 0), (TEN, 1800), (TEN, 25 * 3600)):
        with pytest.raises(ValueError, match="hours"):
            whole_hours(Interval(started_at, started_at + timedelta(seconds=seconds)))
    with pytest.raises(ValueError, match="hours"):
        whole_hours(Interval(TEN + timedelta(minutes=1), TEN + timedelta(minutes=61)))


def test_the_worst_of_several_outcomes_counts() -> None:
    assert worst([Outcome.OK, Outcome.EMPTY, Outcome.WARNED]) is Outcome.EMPTY
    assert worst([]) is Outcome.OK


class Forgetful(FolderStore):
    """A store that writes and then raises one error, like a disk that becomes full at the end."""

    def __init__(self, folder: Path, forgets: str) -> None:
        super().__init__(folder)
        self._forgets = forgets

    def create(self, key: str, body: bytes) -> bool:
        done = super().create(key, body)
        if self._forgets and key.startswith(self._forgets):
            self._forgets = ""
            raise StoreUnusable(self.location, f"write {key}", OSError(28, "no space left"))
        return done


@pytest.mark.parametrize(("forgets", "versions"), [("objects/", 1), ("manifests/", 2)])
def test_an_error_after_a_write_keeps_one_copy_and_the_chain_whole(
    tmp_path: Path, forgets: str, versions: int
) -> None:
    """The hour is pulled again: at most two versions exist, and one of them is used."""
    store = Forgetful(tmp_path, forgets)

    def ask() -> None:
        landed = Landing(store).land_body(b"said once")
        Landing(store).append_attempt(draft(sha256=landed.sha256))

    with pytest.raises(StoreUnusable):
        ask()
    ask()
    found = landing(tmp_path)
    assert [attempt.sequence for attempt in found.attempts()] == list(range(1, versions + 1))
    assert len(store.list("objects/")) == 1
    assert found.verify().problems == ()
    [entry] = hour_ledger([("c1", Source.THANOS, TEN)], found.attempts())
    assert entry.best is not None
    assert entry.best.sequence == versions
    assert entry.changes == {}
