"""Guarantees of every store, in a folder, in a bucket or in memory.

Put here: guarantees of every store, and those of the folder alone.
Not here: stored objects (`test_landing`), kill points (`test_landing_crashes`).
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.errors import InvalidSetting
from warehouse.object_store import ObjectStore
from warehouse.store import (
    KEY_LENGTH_LIMIT,
    FolderStore,
    KeyNotAllowed,
    ObjectMissing,
    Store,
    StoreUnusable,
    open_store,
    validate_key,
)

Opened = Callable[[Path], Store]


def folder(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store")


def object_store_on_a_folder(tmp_path: Path) -> Store:
    from obstore.store import LocalStore

    (tmp_path / "bucket").mkdir(exist_ok=True)
    return ObjectStore(LocalStore(str(tmp_path / "bucket")), "bucket")


def object_store_in_memory(tmp_path: Path) -> Store:
    return open_store("memory://landing")


every_store = pytest.mark.parametrize(
    "opened", [folder, object_store_on_a_folder, object_store_in_memory]
)
swapping_store = pytest.mark.parametrize("opened", [folder, object_store_in_memory])


@every_store
def test_a_created_object_can_be_read(tmp_path: Path, opened: Opened) -> None:
    store = opened(tmp_path)
    assert store.create("a/b.json", b"\x00evidence\xff")
    assert store.read("a/b.json") == b"\x00evidence\xff"
    assert store.exists("a/b.json")


@every_store
def test_a_second_creator_fails_and_changes_nothing(tmp_path: Path, opened: Opened) -> None:
    store = opened(tmp_path)
    assert store.create("key", b"first")
    assert not store.create("key", b"second")
    assert store.read("key") == b"first"


@every_store
def test_no_store_can_delete(tmp_path: Path, opened: Opened) -> None:
    """Landed and recorded objects are kept; only a lease, which expires, is ever overwritten."""
    done = {name for name in dir(opened(tmp_path)) if not name.startswith("_")}
    about = {"open", "location", "folder"}
    assert done - about <= {"create", "read", "list", "exists", "replace"}


@every_store
def test_an_absent_object_is_missing_and_not_empty(tmp_path: Path, opened: Opened) -> None:
    store = opened(tmp_path)
    assert not store.exists("nothing")
    with pytest.raises(ObjectMissing, match="nothing"):
        store.read("nothing")


@every_store
def test_an_empty_object_exists(tmp_path: Path, opened: Opened) -> None:
    store = opened(tmp_path)
    assert store.create("empty", b"")
    assert store.read("empty") == b""


@every_store
def test_keys_are_listed_in_order_by_prefix(tmp_path: Path, opened: Opened) -> None:
    store = opened(tmp_path)
    for key in ("b/2", "a/10", "a/9", "ab/1", "ab/c/d/a", "c"):
        store.create(key, b"x")
    assert store.list("") == ["a/10", "a/9", "ab/1", "ab/c/d/a", "b/2", "c"]
    assert store.list("a") == ["a/10", "a/9", "ab/1", "ab/c/d/a"]
    assert store.list("ab/c") == store.list("ab/c/") == ["ab/c/d/a"]
    assert store.list("a/") == ["a/10", "a/9"]
    assert store.list("a/1") == ["a/10"]
    assert store.list("nothing/") == []


@swapping_store
def test_a_swap_succeeds_only_from_the_expected_bytes(tmp_path: Path, opened: Opened) -> None:
    store = opened(tmp_path)
    assert not store.replace("lease", b"new", expected=b"old")
    assert store.replace("lease", b"one", expected=None)
    assert not store.replace("lease", b"two", expected=None)
    assert not store.replace("lease", b"two", expected=b"other")
    assert store.replace("lease", b"two", expected=b"one")
    assert store.read("lease") == b"two"


@every_store
def test_of_many_creators_at_once_exactly_one_wins(tmp_path: Path, opened: Opened) -> None:
    store = opened(tmp_path)
    won = racing(lambda number: store.create("key", b"%d" % number))
    assert len(won) == 1
    assert store.read("key") == b"%d" % won[0]


@swapping_store
def test_of_many_swappers_at_once_exactly_one_wins(tmp_path: Path, opened: Opened) -> None:
    store = opened(tmp_path)
    store.create("key", b"old")
    won = racing(lambda number: store.replace("key", b"%d" % number, expected=b"old"))
    assert len(won) == 1
    assert store.read("key") == b"%d" % won[0]


def racing(act: Callable[[int], bool]) -> list[int]:
    """Start eight threads at one moment; the numbers of those that succeeded."""
    start = threading.Barrier(8)
    won: list[int] = []

    def run(number: int) -> None:
        start.wait()
        if act(number):
            won.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


@every_store
@pytest.mark.parametrize(
    "key",
    ["", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/.hidden", ".", "a\\b", "a b", "ä", "a\x00"],
)
def test_keys_that_could_leave_the_store_are_refused(
    tmp_path: Path, opened: Opened, key: str
) -> None:
    store = opened(tmp_path)
    for act in (
        lambda: store.create(key, b""),
        lambda: store.read(key),
        lambda: store.exists(key),
        lambda: store.replace(key, b"", None),
    ):
        with pytest.raises(KeyNotAllowed):
            act()


def test_the_limit_on_the_length_of_a_key_is_exact() -> None:
    assert validate_key("a" * KEY_LENGTH_LIMIT)
    with pytest.raises(KeyNotAllowed):
        validate_key("a" * (KEY_LENGTH_LIMIT + 1))


def test_an_unfinished_file_of_a_killed_writer_is_not_listed(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.create("a/b", b"whole")
    (tmp_path / "a/.unfinished-1-abcd").write_bytes(b"hal")
    assert store.list("") == ["a/b"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("call", ["fsync", "link"])
def test_a_disk_error_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    store = FolderStore(tmp_path)
    store.create("a/before", b"x")

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(StoreUnusable, match=os.strerror(number)):
            store.create("a/key", b"evidence")
    assert store.list("") == ["a/before"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["before"]
    assert store.create("a/key", b"evidence")


def test_bytes_and_names_are_synced_before_creation_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this order a loss of power is safe: bytes, then the name, then the folder."""
    order: list[str] = []
    real_fsync, real_link = os.fsync, os.link

    def fsync(descriptor: int) -> None:
        kind = "folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "bytes"
        order.append(kind)
        real_fsync(descriptor)

    def link(source: str, target: str) -> None:
        order.append("name")
        real_link(source, target)

    store = FolderStore(tmp_path)
    store.create("a/first", b"x")
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    store.create("a/second", b"y")
    assert order == ["bytes", "name", "folder"]


def test_a_name_that_another_writer_created_is_synced_before_its_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two simultaneous creators the second also continues, so the name must be durable
    for both.
    """
    order: list[str] = []
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        order.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "bytes")
        real_fsync(descriptor)

    def link(source: str, target: str) -> None:
        Path(target).write_bytes(Path(source).read_bytes())
        order.append("name of the other")
        raise FileExistsError(target)

    store = FolderStore(tmp_path)
    store.create("a/first", b"x")
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    assert not store.create("a/second", b"y")
    assert order == ["bytes", "name of the other", "folder"]


def test_a_folder_that_is_a_file_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreUnusable):
        FolderStore(tmp_path / "file").create("a/b", b"x")


def test_a_url_of_a_folder_has_the_guarantees_of_a_folder(tmp_path: Path) -> None:
    store = open_store(tmp_path.as_uri())
    assert isinstance(store, FolderStore)
    assert store.folder == tmp_path


def test_a_url_of_an_unknown_scheme_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidSetting) as caught:
        open_store("ftp://user:canary@host/landing")
    assert "canary" not in caught.value.message()
