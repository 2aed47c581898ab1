"""The identity of a series: its label set and its stable name, independent of responses.

Put here: series, and how they are named.
Not here: their samples (`ingestion.thanos.decode`, `ingestion.thanos.telemetry`), or files
(`ingestion.thanos.runs`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

METRIC_NAME = "__name__"
Names = tuple[str, ...]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_METRIC = frozenset({METRIC_NAME})
_POD = _METRIC | {"uid", "pod"}


@dataclass(frozen=True, slots=True)
class SeriesIdentity:
    """A label set without replica labels, under its stable name.

    Names and texts are separate, in the order of names: series of one metric share the names. If
    the label `uid` is a UUID, it and the name of the pod are fields of their own.
    """

    series_id: str
    metric: str
    uid: str  # "" where there is none
    uuid: bytes | None
    pod: str | None
    names: Names
    texts: tuple[str, ...]

    @classmethod
    def of(cls, labels: Mapping[str, str], shared: dict[Names, Names]) -> SeriesIdentity:
        """From labels with `__name__`; `shared` keeps each distinct tuple of names once."""
        parts = _parts(labels, shared)
        return cls(series_name(labels), labels.get(METRIC_NAME, ""), *parts)

    @property
    def labels(self) -> dict[str, str]:
        """All labels without `__name__`."""
        found = dict(zip(self.names, self.texts, strict=True))
        if self.uuid is not None:
            found["uid"] = self.uid
        if self.pod is not None:
            found["pod"] = self.pod
        return found

    def text(self, name: str) -> str:
        """The text of a label that is neither the UID nor the pod's name; "" without it."""
        return self.texts[self.names.index(name)] if name in self.names else ""


_Parts = tuple[str, bytes | None, str | None, Names, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class SharedLabels:
    """Labels without a metric's name, which several metrics have: a card has twenty."""

    before: bytes  # as a name is hashed: the labels that are sorted before `__name__`
    after: bytes
    parts: _Parts

    @classmethod
    def of(cls, labels: Mapping[str, str], shared: dict[Names, Names]) -> SharedLabels:
        pairs = sorted(labels.items())
        before = _hashed((name, text) for name, text in pairs if name < METRIC_NAME)
        after = _hashed((name, text) for name, text in pairs if name > METRIC_NAME)
        return cls(before, after, _parts(labels, shared))

    def named(self, metric: str) -> SeriesIdentity:
        """The series of one metric: the same as `Series.of` for these labels and that name."""
        name = _hashed([(METRIC_NAME, metric)])
        return SeriesIdentity(_named(self.before + name + self.after), metric, *self.parts)


def series_name(labels: Mapping[str, str]) -> str:
    """The first half of `domain.identity.sha256(labels)`, several times faster for plain text."""
    return _named(_hashed(sorted(labels.items())))


def _named(body: bytes) -> str:
    return hashlib.sha256(b"m%d:%b" % (len(body), body)).hexdigest()[:32]


def _hashed(pairs: Iterable[tuple[str, str]]) -> bytes:
    encoded = [(name.encode(), text.encode()) for name, text in pairs]
    return b"".join([b"s%d:%bs%d:%b" % (len(n), n, len(t), t) for n, t in encoded])


def _parts(labels: Mapping[str, str], shared: dict[Names, Names]) -> _Parts:
    """UID, UUID, pod, and the names and texts of the other labels."""
    uid = labels.get("uid", "")
    is_uuid = _UUID.fullmatch(uid) is not None
    apart = _POD if is_uuid else _METRIC
    names = tuple(sorted([name for name in labels if name not in apart]))
    return (
        uid,
        bytes.fromhex(uid.replace("-", "")) if is_uuid else None,
        labels.get("pod") if is_uuid else None,
        shared.setdefault(names, names),
        tuple([labels[name] for name in names]),
    )
