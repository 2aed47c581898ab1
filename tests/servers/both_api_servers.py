"""The fake API server and a real one with the same history, for the same requests.

Put here: writing the same objects to both, and removing differences on which no client may rely:
the numbers of versions and the contents of tokens.
Not here: the requests (`test_fake_equals_api_server`).
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx

from fake_gpu.clock import VirtualClock, epoch
from fake_gpu.kubernetes.objects import Change, ObjectHistory
from tests.servers import replay
from tests.servers.control_plane import ControlPlane
from tests.servers.process import wait_for
from tests.small_fleets import MIDNIGHT

Document = dict[str, Any]


@dataclass
class Both:
    """The two servers, with one history."""

    plane: ControlPlane
    clock: VirtualClock
    history: ObjectHistory
    real: httpx.Client
    fake: httpx.Client
    told_until: int = field(default=MIDNIGHT)

    def advance(self, seconds: int) -> None:
        """Apply the changes of the history to both, up to this second after midnight."""
        second = MIDNIGHT + seconds
        for change in self.history.changes:
            if self.told_until < change.at <= second and change.kind in replay.SERVED:
                self._replay(change)
        self.told_until = second
        self.clock.advance_to(epoch(second))

    def _replay(self, change: Change) -> None:
        document = change.object
        document["metadata"] = without_version(document["metadata"])
        if change.verb == "DELETED":
            self.plane.remove_key(replay.key_of(document))
        else:
            self.plane.store(replay.key_of(document), document)

    def settle(self) -> None:
        """Wait until the cache of the real server has all changes."""
        for kind, resource in replay.SERVED.items():
            expected = {
                (d["metadata"].get("namespace", ""), d["metadata"]["name"])
                for d in self.history.objects_at(kind, self.told_until)
            }
            path = f"{resource.path}/{resource.plural}"

            wait_for(partial(self._lists, path, expected))

    def _lists(self, path: str, expected: set[tuple[str, str]]) -> bool:
        response = self.real.get(path, params={"resourceVersion": 0})
        if response.status_code != 200:
            return False  # after a start, custom resources are served a little later
        items = response.json()["items"]
        names = {(i["metadata"].get("namespace", ""), i["metadata"]["name"]) for i in items}
        return names >= expected

    def ask(self, path: str, **params: Any) -> tuple[Document, Document]:
        """The responses of both to a GET, without permitted differences."""
        return tuple(level(c.get(path, params=params)) for c in (self.real, self.fake))  # type: ignore[return-value]

    def same(self, path: str, **params: Any) -> Document:
        real, fake = self.ask(path, **params)
        assert fake == real
        return real


# --- levelling -----------------------------------------------------------------------------------

_NUMBER = re.compile(r"\d+")


def level(answer: httpx.Response) -> Document:
    """A response without the parts on which no client may rely."""
    head = {
        "status": answer.status_code,
        "content_type": answer.headers["content-type"],
        "retry_after": answer.headers.get("retry-after"),
    }
    if not answer.headers["content-type"].startswith("application/json"):
        return head | {"text": answer.text}
    return head | {"body": level_document(answer.json())}


def level_document(document: Document) -> Document:
    if document.get("kind") == "Status":
        levelled = document | {"message": _NUMBER.sub("#", document["message"])}
        levelled["metadata"] = _level_meta(document["metadata"])
        return levelled
    if "items" in document:
        items = [_level_item(item) for item in document["items"]]
        return document | {"metadata": _level_meta(document["metadata"]), "items": items}
    return _level_item(document)


def _level_meta(meta: Document) -> Document:
    levelled = dict(meta)
    for name in ("resourceVersion", "continue"):
        if name in levelled:
            levelled[name] = bool(levelled[name])
    return levelled


def _level_item(item: Document) -> Document:
    """The identifying fields of an object; another test compares whole documents."""
    meta = item["metadata"]
    known = {name: meta.get(name) for name in ("name", "namespace", "uid", "generation")}
    known |= {"resourceVersion": meta["resourceVersion"].isdecimal(), "status": item.get("status")}
    return known | {"kind": item.get("kind"), "apiVersion": item.get("apiVersion")}


def names_of(answer: Document) -> list[str]:
    return [item["name"] for item in answer["body"]["items"]]


# --- streams -------------------------------------------------------------------------------------


class WatchStream:
    """One watch of one server, read in a thread.

    A real server closes a watch whose client is slow. Such a watch is opened again.
    """

    def __init__(
        self, client: httpx.Client, path: str, params: Document, *, reopens: bool = False
    ) -> None:
        self.lines: list[Document] = []
        self.over = threading.Event()
        self._client, self._path = client, path
        self._params: Document = {"watch": "1", "timeoutSeconds": 7200} | params
        self._stop = threading.Event()
        self._reopens = reopens
        self.open()

    def open(self) -> None:
        """Open the watch, again if it was closed."""
        self.lines.clear()
        self.over.clear()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            with self._client.stream("GET", self._path, params=self._params) as response:
                assert response.status_code == 200, response.read()
                for line in response.iter_lines():
                    if line.strip():
                        self.lines.append(json.loads(line))
                    if self._stop.is_set():
                        return
        except httpx.HTTPError:
            pass
        finally:
            self.over.set()

    def first_events(self, count: int) -> list[Any]:
        """The first events except plain bookmarks, levelled, once there are `count` of them."""
        wait_for(lambda: self._has_events(count))
        return self.events()

    def _has_events(self, count: int) -> bool:
        if len(self.events()) >= count:
            return True
        is_closed = self.over.is_set()
        if is_closed and self._reopens and not any(e["type"] == "ERROR" for e in self.lines):
            self.open()
            return False
        return is_closed

    def events(self) -> list[Any]:
        return [_level_event(e) for e in list(self.lines) if not _is_plain_bookmark(e)]

    def stop(self) -> None:
        self._stop.set()


def _is_plain_bookmark(event: Document) -> bool:
    return event["type"] == "BOOKMARK" and "annotations" not in event["object"]["metadata"]


def _level_event(event: Document) -> Any:
    if event["type"] == "ERROR":
        return "ERROR", level_document(event["object"])
    if event["type"] == "BOOKMARK":
        return "BOOKMARK", bookmark(event)
    return event["type"], _level_item(event["object"])


def bookmark(event: Document) -> Document:
    """The guaranteed fields of a bookmark; the rest is an empty object of its kind."""
    document = event["object"]
    return {
        "kind": document["kind"],
        "apiVersion": document["apiVersion"],
        "metadata": _level_meta(document["metadata"]),
    }


def watch_both(both: Both, path: str, **params: Any) -> tuple[WatchStream, WatchStream]:
    """Both watches; a parameter that differs between the servers is given as (real, fake)."""
    return (
        WatchStream(both.real, path, {k: of_side(v, 0) for k, v in params.items()}, reopens=True),
        WatchStream(both.fake, path, {k: of_side(v, 1) for k, v in params.items()}),
    )


def of_side(value: Any, place: int) -> Any:
    return value[place] if isinstance(value, tuple) else value


def versions_of(both: Both, path: str) -> tuple[str, str]:
    real, fake = (
        client.get(path).json()["metadata"]["resourceVersion"] for client in (both.real, both.fake)
    )
    return real, fake


def without_version(meta: Document) -> Document:
    return {name: value for name, value in meta.items() if name != "resourceVersion"}
