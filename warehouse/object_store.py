"""An object store by URL, with the guarantees of a folder: S3 and compatible stores.

Put here: conditional create and compare-and-swap in the protocol of a bucket.
Not here: the guarantees themselves and the rules for keys (`warehouse.store`).

A bucket makes an object appear whole, so there is no temporary file; `create` is a put with
`If-None-Match: *`, `replace` a put with the `If-Match` of the object that was read. After an
uncertain response (the connection broke after the put) the object is read to decide.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import MemoryStore, from_url

from domain.errors import WrongUse
from warehouse.store import Keys, ObjectMissing, StoreUnusable, validate_key

if TYPE_CHECKING:
    from obstore import UpdateVersion  # obstore has it in its type stubs only

FAILURES = (BaseError, OSError)

TRIES_LIMIT = 3
"""Of one request to the bucket; the store's own client waits between them."""

CONNECT_TIMEOUT_SECONDS = 10
TIMEOUT_SECONDS = 60
"""A manifest is a few kilobytes and a body a few megabytes; a minute is for a bucket far away."""


class PlaceNotSupported(WrongUse):
    """A URL that names no kind of store."""

    code = "CONF-001"

    def __init__(self, url: str) -> None:
        super().__init__(
            where=f"the place {url.split('://', 1)[0]}://…",
            seen="it is none of s3://, gs://, az://, file://, memory://",
            why="evidence needs a store with conditional creates",
            remedy="give s3://bucket/prefix in config.toml, or nothing for a folder in the home",
        )


def client_settings() -> dict[str, Any]:
    """How every client of a bucket waits and repeats; credentials come from the environment."""
    # An http:// endpoint is on this host or in this cluster, and was configured on purpose.
    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return {
        "client_options": {
            "timeout": f"{TIMEOUT_SECONDS}s",
            "connect_timeout": f"{CONNECT_TIMEOUT_SECONDS}s",
            "allow_http": plain,
        },
        "retry_config": {"max_retries": TRIES_LIMIT},
    }


class ObjectStore:
    """A store in a bucket, or in anything that obstore reaches."""

    def __init__(self, store: Any, location: str) -> None:
        self._store = store
        self._location = location

    @classmethod
    def open(cls, url: str) -> ObjectStore:
        """Open by URL. Credentials come from the environment or the platform, never from it."""

        parts = urlsplit(url)
        shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        if parts.scheme == "memory":
            return cls(MemoryStore(), shown)
        if parts.scheme not in ("s3", "gs", "az"):
            raise PlaceNotSupported(url)
        return cls(from_url(url, **client_settings()), shown)

    @property
    def location(self) -> str:
        return self._location

    def create(self, key: str, body: bytes) -> bool:

        validate_key(key)
        try:
            obstore.put(self._store, key, body, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False  # or our own first try, repeated by the client: the caller's bytes tell
        except FAILURES as cause:
            return self._settled(key, body, cause)
        return True

    def read(self, key: str) -> bytes:
        return self._read(key)[0]

    def list(self, prefix: str) -> Keys:

        if prefix:
            validate_key(prefix.rstrip("/") or "/")
        # Buckets list by whole parts of a key; the rest of the prefix is ours to compare.
        folder = prefix.rpartition("/")[0] or None
        try:
            pages = obstore.list(self._store, folder)
            keys = [meta["path"] for page in pages for meta in page]
        except FAILURES as cause:
            raise self._unusable(f"list {prefix or 'everything'}", cause) from cause
        return sorted(key for key in keys if key.startswith(prefix))

    def exists(self, key: str) -> bool:

        validate_key(key)
        try:
            obstore.head(self._store, key)
        except FileNotFoundError:
            return False
        except FAILURES as cause:
            raise self._unusable(f"look for {key}", cause) from cause
        return True

    def replace(self, key: str, body: bytes, expected: bytes | None) -> bool:

        validate_key(key)
        if expected is None:
            return self.create(key, body) or self._holds(key, body)
        try:
            present, version = self._read(key)
        except ObjectMissing:
            return False
        if present != expected:
            return False
        try:
            obstore.put(self._store, key, body, mode=version, use_multipart=False)
        except (AlreadyExistsError, PreconditionError, NotFoundError):
            return self._holds(key, body)
        except FAILURES as cause:
            return self._settled(key, body, cause)
        return True

    def _read(self, key: str) -> tuple[bytes, UpdateVersion]:
        """The bytes, and the version that a swap must name."""

        validate_key(key)
        try:
            found = obstore.get(self._store, key)
            meta = found.meta
            body = bytes(found.bytes())
        except FileNotFoundError:
            raise ObjectMissing(self.location, key) from None
        except FAILURES as cause:
            raise self._unusable(f"read {key}", cause) from cause
        version: UpdateVersion = {}
        if meta["e_tag"] is not None:
            version["e_tag"] = meta["e_tag"]
        if meta["version"] is not None:
            version["version"] = meta["version"]
        return body, version

    def _holds(self, key: str, body: bytes) -> bool:
        """Whether a refused swap was our own, whose answer got lost and which was sent again."""
        try:
            return self.read(key) == body
        except ObjectMissing:
            return False

    def _settled(self, key: str, body: bytes, cause: Exception) -> bool:
        """After a put with an uncertain end: whether our bytes are there now."""
        try:
            present = self.read(key)
        except ObjectMissing:
            raise self._unusable(f"write {key}", cause) from cause
        return present == body

    def _unusable(self, what: str, cause: Exception) -> StoreUnusable:
        first_line = str(cause).strip().splitlines()[0] if str(cause).strip() else ""
        return StoreUnusable(
            self.location, what, OSError(0, first_line[:200] or type(cause).__name__)
        )
