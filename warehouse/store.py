"""Stores of named bytes for evidence and record, and their guarantees.

Put here: the guarantees (`Store`), the folder that keeps them, the rules for keys.
Not here: the meaning of the bytes (`ingestion.evidence.landing`, `billing.record`), the lock of
their writers (`warehouse.lease`), or the object store with the same guarantees
(`warehouse.object_store`).

The guarantees: an object exists whole or not at all; once `create` has returned, a loss of power
does not remove it; of two creators of one key only one succeeds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Protocol

from domain.errors import (
    BadInput,
    EvidenceChanged,
    FileDamaged,
    TemporarilyUnavailable,
    WrongUse,
)

KEY_LENGTH_LIMIT = 512
"""S3 allows 1024 bytes; half of it leaves room for any prefix that a bucket location adds."""

_KEY_PART = re.compile(r"[A-Za-z0-9_=+,@-][A-Za-z0-9_=+,@.-]*", re.ASCII)
_UNFINISHED = ".unfinished-"
_LOCK_FOLDER = ".locks"


Keys = list[str]
"""Sorted keys. (Inside a class with a method `list`, the word means that method.)"""


class KeyNotAllowed(WrongUse):
    """A key that could leave the store, or that some bucket would spell differently."""

    code = "VALUE-001"

    def __init__(self, key: str) -> None:
        super().__init__(
            where="a key in a store",
            seen=f"{key[:80]!r} is not allowed: relative, of letters, digits and -_=+,@. only, "
            f"no part starting with a dot, at most {KEY_LENGTH_LIMIT} characters",
            why="a key that leaves the store could overwrite or reveal other files",
            remedy="if it holds a cluster ID, correct `cluster_id` in decisions/clusters.csv; if a "
            "namespace, no API server allows it: find out where its pods come from",
        )


class ObjectMissing(EvidenceChanged):
    """An object that something refers to is not in the store."""

    code = "LAND-001"

    def __init__(self, location: str, key: str) -> None:
        super().__init__(
            where=f"{location}/{key}",
            seen="no such object",
            why="another object refers to it, and it cannot be read",
            remedy="restore it from the backup of the home, then run `gpu-ledger landing verify`",
        )


class StoreUnusable(TemporarilyUnavailable):
    """The folder or bucket refused a read or a write: full, read-only, away."""

    code = "STORE-001"

    def __init__(self, location: str, what: str, cause: OSError) -> None:
        super().__init__(
            where=location,
            seen=f"could not {what}: {cause.strerror or cause}",
            why="nothing was written; existing data is unchanged",
            remedy="free space or repair access (df -h, ls -ld), then run the same command again",
        )


UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError, BadInput)
"""The errors of reading text, JSON or CSV of another form."""


@contextlib.contextmanager
def reading(where: str, remedy: str, *errors: type[Exception]) -> Iterator[None]:
    """Read something that the ledger wrote; FileDamaged where it has another form."""
    unreadable: tuple[type[Exception], ...] = (*UNREADABLE, *errors)
    try:
        yield
    except unreadable as cause:
        raise FileDamaged(
            where=where,
            seen=f"gpu-ledger cannot read it ({type(cause).__name__}: {str(cause)[:200]})",
            why="the file was truncated, edited or overwritten, and is needed",
            remedy=remedy,
        ) from cause


class Store(Protocol):
    """Named bytes. Every key is relative, with `/` between its parts."""

    @property
    def location(self) -> str: ...

    def create(self, key: str, body: bytes) -> bool:
        """Write a new object, whole and durably; False when the key is taken (nothing changes)."""
        ...

    def read(self, key: str) -> bytes:
        """The bytes of an object; raises ObjectMissing."""
        ...

    def list(self, prefix: str) -> Keys:
        """All keys that start with `prefix`, sorted."""
        ...

    def exists(self, key: str) -> bool: ...

    def replace(self, key: str, body: bytes, expected: bytes | None) -> bool:
        """Compare and swap: write `body` if the object is `expected` (None: absent) now.

        Each writer must write distinct bytes: two that write the same may both get True.
        """
        ...


def open_store(location: str | Path) -> Store:
    """A folder by its path (or file URL), or an object store by its URL (`s3://bucket/prefix`)."""
    if isinstance(location, str) and location.startswith("file://"):
        return FolderStore(Path(location.removeprefix("file://")))
    if isinstance(location, str) and "://" in location:
        from warehouse.object_store import ObjectStore  # it imports this module

        return ObjectStore.open(location)
    return FolderStore(Path(location))


def validate_key(key: str) -> str:
    """Return `key` when every store can hold it as it is; refuse it otherwise."""
    parts = key.split("/")
    if len(key) > KEY_LENGTH_LIMIT or not all(_KEY_PART.fullmatch(part) for part in parts):
        raise KeyNotAllowed(key)
    return key


class FolderStore:
    """A store in a local folder: temporary file, fsync, link, fsync of the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def location(self) -> str:
        return str(self.folder)

    def create(self, key: str, body: bytes) -> bool:
        # Text, not paths, here and below: a month of a few clusters lands ten thousand bodies.
        path = os.path.join(self.folder, validate_key(key))
        folder = os.path.dirname(path)
        with self._refusing(f"write {key}"):
            if os.path.exists(path):
                # Its writer may have ended before the name was durable.
                sync_folder(folder)
                return False
            if not os.path.isdir(folder):
                make_folder(Path(folder))
            with _temporary_file(path, body) as unfinished:
                try:
                    # A link never overwrites: of two creators exactly one wins, whole.
                    os.link(unfinished, path)
                    created = True
                except FileExistsError:
                    created = False
            sync_folder(folder)  # also of a name that another one made a moment ago
        return created

    def read(self, key: str) -> bytes:
        path = self._path(key)
        try:
            return path.read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise ObjectMissing(self.location, key) from None
        except OSError as cause:
            raise StoreUnusable(self.location, f"read {key}", cause) from cause

    def list(self, prefix: str) -> Keys:
        if prefix:
            validate_key(prefix.rstrip("/") or "/")
        with self._refusing(f"list {prefix or 'everything'}"):
            inside, _, start = prefix.rpartition("/")
            return sorted(self._keys_below(self.folder / inside, start))

    def exists(self, key: str) -> bool:
        return self._path(key).is_file()

    def replace(self, key: str, body: bytes, expected: bytes | None) -> bool:
        path = self._path(key)
        with self._refusing(f"replace {key}"):
            make_folder(path.parent)
            with self._locked(key):
                present = path.read_bytes() if path.is_file() else None
                if present != expected:
                    return False
                with _temporary_file(str(path), body) as unfinished:
                    os.replace(unfinished, path)
                sync_folder(path.parent)
        return True

    def _path(self, key: str) -> Path:
        return self.folder / validate_key(key)

    def _keys_below(self, folder: Path, start: str) -> Iterator[str]:
        """Every key in a folder whose path from there begins with `start`."""
        # Text, not paths: a month's journal has thousands of names, and is listed for every day.
        root = len(os.path.join(self.folder, ""))
        for parent, folders, names in os.walk(folder):
            folders[:] = [n for n in folders if n.startswith(start) and not n.startswith(".")]
            for name in folders:
                # os.walk does not follow it, and the files behind it would be missing without
                # notice.
                if os.path.islink(os.path.join(parent, name)):
                    wrong = f"{name} is a symbolic link to a folder; mount that folder there"
                    raise OSError(errno.ELOOP, wrong)
            below = os.path.join(parent, "")[root:]
            yield from (below + n for n in names if n.startswith(start) and not n.startswith("."))
            start = ""  # further down, every name has it in its path

    @contextlib.contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """One replacer at a time; the lock ends with the process, however it ends."""
        lock_path = self.folder / _LOCK_FOLDER / key.replace("/", "~")
        make_folder(lock_path.parent)
        with lock_path.open("ab") as lock_file:
            fcntl.flock(lock_file, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            raise StoreUnusable(self.location, what, cause) from cause


def make_folder(folder: Path) -> None:
    """Make a folder and its parents so that they survive a loss of power."""
    missing = takewhile(lambda parent: not parent.exists(), (folder, *folder.parents))
    for parent in reversed([*missing]):
        parent.mkdir(exist_ok=True)
        sync_folder(parent.parent)


def write_whole(path: Path, body: bytes) -> None:
    """Write a file whole or not at all; StoreUnusable names the file that could not be written."""
    try:
        make_folder(path.parent)
        with _temporary_file(str(path), body) as unfinished:
            os.replace(unfinished, path)
    except OSError as cause:
        raise StoreUnusable(str(path), "write", cause) from cause


def sync_folder(folder: Path | str) -> None:
    """Make the names in a folder durable; the bytes of its files are synced apart."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _temporary_file(path: str, body: bytes) -> Iterator[str]:
    """A synced file with `body` in the folder of `path`, removed again unless it was renamed."""
    name = f"{_UNFINISHED}{os.getpid()}-{os.urandom(8).hex()}"
    unfinished = os.path.join(os.path.dirname(path), name)
    try:
        with open(unfinished, "xb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        yield unfinished
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(unfinished)
