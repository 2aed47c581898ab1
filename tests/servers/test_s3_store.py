"""A bucket of a real S3 server works like a folder: stores, leases, landings, journals.

Put here: the same guarantees with a real server, faults of a network, and the bucket's policies.
Not here: each guarantee alone (`tests/unit/test_store`, `test_lease`, `test_landing`).
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import BaseError

from domain.clock import StoppedClock
from domain.interval import Interval
from ingestion.evidence.landing import Landing
from ingestion.kubernetes.journal import JournalWriter, parse_lines, segments
from ingestion.kubernetes.journal_lines import Line, line_of
from ingestion.thanos.pull import pull_hours
from orchestration.deployment_checks import storage_lines
from tests.samples_by_hand import CLUSTER, HOUR, TEN, Server, healthy
from tests.servers.s3 import BUCKET, USERS, Bucket, s3_server
from warehouse.home import Home
from warehouse.lease import LeaseHeld, LeaseLost, acquire, lease
from warehouse.manifest import Attempt
from warehouse.object_store import open_bucket
from warehouse.store import ObjectMissing, Store, StoreUnusable, open_store

pytestmark = pytest.mark.servers

WRITERS = 8
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "keep-evidence-in-a-bucket.md"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with (
        s3_server(tmp_path_factory.mktemp("s3")) as bucket,
        pytest.MonkeyPatch.context() as patched,
    ):
        for name, text in bucket.environment.items():
            patched.setenv(name, text)
        yield bucket


@pytest.fixture
def url(bucket: Bucket) -> str:
    """A prefix of its own for each test."""
    return bucket.url(f"test-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def store(url: str) -> Store:
    return open_store(url)


def racing(act: Callable[[int], bool]) -> list[int]:
    """Start all at the same time; returns the numbers of those that succeeded."""
    start = threading.Barrier(WRITERS)
    won: list[int] = []
    lost: list[BaseException] = []

    def run(number: int) -> None:
        start.wait()
        try:
            if act(number):
                won.append(number)
        except BaseException as error:  # noqa: BLE001 - the main thread asserts it
            lost.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == []
    return won


# --- the store -----------------------------------------------------------------------------------


def test_a_created_object_is_read_back_listed_and_never_overwritten(store: Store) -> None:
    keys = ("b/2", "a/10", "a/9", "ab/1", "c")
    for key in keys:
        assert store.create(key, b"\x00first\xff" + key.encode())
    assert not store.create("a/9", b"second")
    assert store.read("a/9") == b"\x00first\xffa/9"
    assert store.list("") == sorted(keys)
    assert (store.list("a/"), store.list("a/1"), store.list("nothing/")) == (
        ["a/10", "a/9"],
        ["a/10"],
        [],
    )
    assert (store.exists("c"), store.exists("d")) == (True, False)
    with pytest.raises(ObjectMissing, match="d"):
        store.read("d")
    assert store.create("empty", b"")
    assert store.read("empty") == b""


def test_more_objects_than_a_page_of_a_list_are_all_listed(store: Store) -> None:
    """S3 lists a thousand at a time."""
    keys = [f"objects/{number:04d}" for number in range(1_100)]

    def write(writer: int) -> bool:
        return all(store.create(key, b"x") for key in keys[writer::WRITERS])

    assert len(racing(write)) == WRITERS
    assert store.list("objects/") == keys


def test_of_many_creators_at_once_exactly_one_wins(store: Store, url: str) -> None:
    for turn in range(10):
        won = racing(lambda n, turn=turn: open_store(url).create(f"key/{turn}", b"%d" % n))  # type: ignore[misc]
        assert len(won) == 1
        assert store.read(f"key/{turn}") == b"%d" % won[0]


def test_of_many_swappers_at_once_exactly_one_wins(store: Store, url: str) -> None:
    assert not store.replace("lease", b"new", expected=b"old")
    assert store.replace("lease", b"old", expected=None)
    assert not store.replace("lease", b"new", expected=b"other")
    for turn in range(10):
        before = store.read("lease")
        won = racing(
            lambda n, turn=turn, before=before: open_store(url).replace(  # type: ignore[misc]
                "lease", b"%d of turn %d" % (n, turn), expected=before
            )
        )
        assert len(won) == 1
        assert store.read("lease") == b"%d of turn %d" % (won[0], turn)


def body_of(key: str) -> bytes:
    return key.encode() * 500


def settled(store: Store, key: str) -> bool:
    """Create an object like every writer: an existing object with the same bytes counts as created.

    If a response is lost, the client repeats the request and receives the error that the object
    exists.
    """
    return store.create(key, body_of(key)) or store.read(key) == body_of(key)


def test_a_connection_that_breaks_often_loses_and_doubles_nothing(bucket: Bucket, url: str) -> None:
    store = open_store(url)
    keys = [f"objects/{number:03d}" for number in range(150)]
    written: set[str] = set()
    refused: set[str] = set()

    def write() -> None:
        for key in keys:
            try:
                written.update({key} if settled(store, key) else ())
            except StoreUnusable:
                refused.add(key)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        writer.join(0.15)
        bucket.relay.cut()
        writer.join(0.15)
        bucket.relay.mend()
    assert written | refused == set(keys)
    # A request without a response may have been executed; a repetition makes it certain.
    assert set(store.list("objects/")) >= written
    assert all(settled(store, key) for key in refused)
    assert store.list("objects/") == keys
    assert all(store.read(key) == body_of(key) for key in keys)


def test_an_unreachable_server_is_named(bucket: Bucket, url: str) -> None:
    store = open_store(url)
    bucket.relay.cut()
    try:
        with pytest.raises(StoreUnusable) as caught:
            store.read("anything")
        assert url in caught.value.where
    finally:
        bucket.relay.mend()
    assert store.create("anything", b"now")


# --- the lease -----------------------------------------------------------------------------------


def test_one_holder_at_a_time_and_a_fence_that_grows(store: Store, url: str) -> None:
    clock = StoppedClock(TEN)
    with lease(store, "first", clock, 600) as held:
        assert held.fence == 1
        with pytest.raises(LeaseHeld):
            acquire(open_store(url), "second", clock, 600)
        held.renew()
    crashed = acquire(store, "crashed", clock, 600)
    clock.wait_until(TEN + timedelta(seconds=600))
    after = acquire(open_store(url), "after", clock, 600)
    assert (crashed.fence, after.fence) == (2, 3)
    with pytest.raises(LeaseLost):
        crashed.check()
    with pytest.raises(LeaseLost):
        crashed.renew()
    assert after.check() == 3


def test_of_many_that_want_the_lease_at_once_one_gets_it(url: str) -> None:
    clock = StoppedClock(TEN)

    def want(number: int) -> bool:
        try:
            acquire(open_store(url), f"writer-{number}", clock, 600)
        except LeaseHeld:
            return False
        return True

    assert len(racing(want)) == 1


# --- landing -------------------------------------------------------------------------------------


def pull(url: str, runs: Path, asked_after: timedelta = timedelta(days=2)) -> Attempt:
    return pull_hours(
        CLUSTER,
        Interval(TEN, TEN + HOUR),
        Landing(open_store(url)),
        runs,
        StoppedClock(TEN + asked_after),
        Server(healthy).client(),
    )


def test_pulls_at_once_make_one_chain_and_every_body_is_there(url: str, tmp_path: Path) -> None:
    def write(number: int) -> bool:
        # Each at another second, because attempts with the same bytes are one.
        later = timedelta(days=2, seconds=number)
        return pull(url, tmp_path / str(number), later).sequence > 0

    assert len(racing(write)) == WRITERS
    landing = Landing(open_store(url))
    assert landing.verify().problems == ()
    assert [attempt.sequence for attempt in landing.attempts()] == list(range(1, WRITERS + 1))
    assert {attempt.outcome for attempt in landing.attempts()} == {"ok"}


def test_a_byte_that_was_changed_in_the_bucket_is_found_named_and_repaired(
    bucket: Bucket, url: str, tmp_path: Path
) -> None:
    attempt = pull(url, tmp_path)
    digest = max(attempt.answers, key=lambda answer: answer.byte_count).sha256
    prefix = url.removeprefix(bucket.url(""))
    [file] = (bucket.folder / prefix / "objects").glob(f"*/{digest}.zst")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    problems = Landing(open_store(url)).verify().problems
    assert [digest in str(problem) for problem in problems] == [True]

    damaged = file.read_bytes()
    again = pull(url, tmp_path, timedelta(days=3))
    report = Landing(open_store(url)).verify()
    assert report.problems == ()
    assert again.draft.facts["bodies_repaired"] == 1
    assert file.read_bytes() == whole
    assert [open_store(url).read(key) for key in report.set_aside] == [damaged]


# --- journals ------------------------------------------------------------------------------------


def a_line(number: int) -> Line:
    at = TEN + timedelta(seconds=number)
    return line_of("watched", at, resource="pods", until=f"2026-10-01T10:{number // 60:02d}:59Z")


def test_two_collectors_of_one_cluster_disturb_nothing(url: str) -> None:
    """Each segment is complete and has a number of its own."""

    def collect(number: int) -> bool:
        writer = JournalWriter(open_store(url), "c1", f"collector-{number}", "0.1.0")
        for flush in range(10):
            writer.add([a_line(flush * 10 + step) for step in range(10)])
            writer.flush(TEN + timedelta(minutes=flush))
        return writer.segment_count == 10

    assert len(racing(collect)) == WRITERS
    store = open_store(url)
    found = segments(store, "c1")
    assert [segment.sequence for segment in found] == list(range(1, 10 * WRITERS + 1))
    lines = [line for s in found for line in parse_lines(s.key, store.read(s.key))]
    assert sum(line["line"] == "watched" for line in lines) == 100 * WRITERS


def test_a_journal_that_could_not_be_written_is_written_later_and_once(
    bucket: Bucket, url: str
) -> None:
    writer = JournalWriter(open_store(url), "c1", "collector", "0.1.0")
    writer.add([a_line(number) for number in range(10)])
    bucket.relay.cut()
    try:
        with pytest.raises(StoreUnusable):
            writer.flush(TEN)
        writer.add([a_line(number) for number in range(10, 20)])
    finally:
        bucket.relay.mend()
    writer.flush(TEN)
    store = open_store(url)
    [segment] = segments(store, "c1")
    lines = list(parse_lines(segment.key, store.read(segment.key)))
    assert [line["position"] for line in lines[1:]] == list(range(20))


def test_an_open_store_uses_keys_that_changed_in_their_file(
    bucket: Bucket, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server verifies the signature of each request."""
    keys = tmp_path / "credentials"
    access, secret = (
        bucket.environment[f"AWS_{n}"] for n in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
    )

    def write(secret: str) -> None:
        text = f"[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n"
        keys.write_text(text)

    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    write("expired")
    store = open_store(url)
    with pytest.raises(StoreUnusable):
        store.create("manifests/1", b"first")
    write(secret)
    assert store.create("manifests/1", b"first")
    assert not store.create("manifests/1", b"second")
    assert store.read("manifests/1") == b"first"


def test_the_policies_of_the_page_forbid_deletion_and_the_readers_writes(
    bucket: Bucket, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a bucket policy, because this server knows no policies of identities."""
    owner = open_bucket(bucket.url(""))
    policies = [
        json.loads(text.replace("arn:aws:s3:::gpu-ledger", f"arn:aws:s3:::{BUCKET}"))
        for text in re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    ]
    statements = [
        statement | {"Principal": {"AWS": [user]}}
        for user, policy in zip(USERS, policies, strict=True)
        for statement in policy["Statement"]
    ]

    def use(user: str) -> Store:
        for name, value in bucket.environment_of(user).items():
            monkeypatch.setenv(name, value)
        return open_store(url)

    with pytest.raises(StoreUnusable):
        use("writer").create("manifests/1", b"first")
    bucket.set_policy({"Version": "2012-10-17", "Statement": statements})
    writer = use("writer")
    assert writer.create("manifests/1", b"first")
    assert not writer.create("manifests/1", b"second")
    assert list(writer.list("manifests/")) == ["manifests/1"]
    reader = use("reader")
    assert reader.read("manifests/1") == b"first"
    assert list(reader.list("manifests/")) == ["manifests/1"]
    with pytest.raises(StoreUnusable):
        reader.create("manifests/2", b"second")
    key = f"{url.removeprefix(bucket.url(''))}/manifests/1"
    for user in USERS:
        use(user)
        with pytest.raises(BaseError, match="AccessDenied"):
            obstore.delete(open_bucket(bucket.url("")), key)
    obstore.delete(owner, key)
    with pytest.raises(ObjectMissing):
        reader.read("manifests/1")


def test_the_doctor_finds_that_the_bucket_refuses_a_second_create(url: str, tmp_path: Path) -> None:
    config = f'[storage]\nlanding = "{url}/landing"\nrecord = "{url}/record"\n'
    home = Home.create(tmp_path / "home", config)
    for _ in range(2):  # the object of the first run is there in the second
        found = {line.check: line.is_fine for line in storage_lines(home)}
        assert found["landing refuses a second create"]
        assert found["record refuses a second create"]
