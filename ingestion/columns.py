"""Arrow columns from their bytes.

Put here: columns of the kinds that derived files have.
Not here: which columns a table has (`ingestion.thanos.runs`, `ingestion.kubernetes.tables`).

`pyarrow.array` and its like import pandas where it is installed, which takes half a second of
every command that asks for an hour. A column is three pieces of memory: which rows have a value,
where each begins, and the values; numpy has them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

FEW = 16
"""Until so many, pieces are put beside each other faster than numpy repeats one."""


def numbers(values: NDArray[Any], kind: pa.DataType | None = None) -> pa.Array:
    """Whole numbers or fractions, as numpy has them; a fraction that is none is null."""
    import pyarrow as pa

    kinds = {"int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64()}
    packed = np.ascontiguousarray(values)
    there = ~np.isnan(packed) if packed.dtype.kind == "f" else None
    buffers = [_validity(there), pa.py_buffer(packed)]
    return pa.Array.from_buffers(kind or kinds[packed.dtype.name], len(packed), buffers)


def milliseconds(values: NDArray[np.int64]) -> pa.Array:
    """Instants from their milliseconds since 1970."""
    import pyarrow as pa

    return numbers(values, pa.timestamp("ms", "UTC"))


def texts(words: Iterable[str | None]) -> pa.Array:
    every = list(words)
    if None not in every:
        return _plain(cast(list[str], every))
    there = np.array([word is not None for word in every], bool)
    return _plain([word or "" for word in every], there)


def _plain(words: Sequence[str], there: NDArray[np.bool_] | None = None) -> pa.Array:
    import pyarrow as pa

    body = "".join(words).encode()
    offsets = _offsets(words)
    if len(body) != offsets[-1]:  # some letters take several bytes
        offsets = _offsets([word.encode() for word in words])
    buffers = [_validity(there), pa.py_buffer(offsets), pa.py_buffer(body)]
    return pa.Array.from_buffers(pa.string(), len(words), buffers)


def named(places: NDArray[Any], words: Sequence[str]) -> pa.Array:
    """Texts of which each is kept once, and which row has which."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(numbers(places.astype(np.int32)), texts(words))


def constant(word: str, row_count: int) -> pa.Array:
    return named(np.zeros(row_count, np.int32), [word])


def sixteen_bytes(values: Sequence[bytes | None]) -> pa.Array:
    """UUIDs."""
    import pyarrow as pa

    there = np.array([value is not None for value in values], bool)
    body = b"".join([value or bytes(16) for value in values])
    buffers = [_validity(there), pa.py_buffer(body)]
    storage = pa.Array.from_buffers(pa.binary(16), len(values), buffers)
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


def maps(names: Sequence[Sequence[str]], words: Sequence[Sequence[str]]) -> pa.Array:
    """For each row the names of its entries, and their texts.

    Neighbours mostly have the same names: those are written once and repeated.
    """
    import pyarrow as pa

    groups = [(same, len(list(rows))) for same, rows in groupby(names)]
    keys = repeated(groups)
    items = _plain(list(chain.from_iterable(words)))
    widths = np.array([len(same) for same, _ in groups], np.int32)
    counts = np.array([count for _, count in groups], np.int64)
    sizes = _sums([np.repeat(widths, counts)])
    return pa.MapArray.from_arrays(numbers(sizes), keys, items)


def repeated(groups: Sequence[tuple[Sequence[str], int]]) -> pa.Array:
    """The texts of each group, one after another, as often as they are repeated."""
    import pyarrow as pa

    known: dict[tuple[str, ...], tuple[bytes, NDArray[np.int32]]] = {}
    bodies: list[bytes] = []
    sizes: list[NDArray[np.int32]] = []
    for words, count in groups:
        same = tuple(words)
        if same not in known:
            written = [word.encode() for word in same]
            known[same] = b"".join(written), np.array([*map(len, written)], np.int32)
        body, lengths = known[same]
        bodies.append(body * count)
        sizes += [lengths] * count if count < FEW else [np.tile(lengths, count)]
    offsets = _sums(sizes)
    return pa.Array.from_buffers(
        pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(bodies))]
    )


def column(values: Sequence[Any], kind: str) -> pa.Array:
    """A column of Python's values: time, text, whole, flag, texts, or labels (pairs)."""
    import pyarrow as pa

    if kind == "text":
        return texts(values)
    if kind == "labels":
        pairs = [value or () for value in values]
        return maps([[k for k, _ in row] for row in pairs], [[v for _, v in row] for row in pairs])
    if kind == "texts":
        values = [value or () for value in values]
        buffers = [None, pa.py_buffer(_offsets(values))]
        words = texts(chain.from_iterable(values))
        return pa.Array.from_buffers(pa.list_(pa.string()), len(values), buffers, children=[words])
    there = np.array([value is not None for value in values], bool)
    if kind == "flag":
        bits = np.packbits(np.array([bool(value) for value in values], bool), bitorder="little")
        buffers = [_validity(there), pa.py_buffer(bits)]
        return pa.Array.from_buffers(pa.bool_(), len(values), buffers)
    wholes = [_microseconds(value) if kind == "time" else value or 0 for value in values]
    buffers = [_validity(there), pa.py_buffer(np.array(wholes, np.int64))]
    type_ = pa.timestamp("us", "UTC") if kind == "time" else pa.int64()
    return pa.Array.from_buffers(type_, len(values), buffers)


def _microseconds(at: datetime | None) -> int:
    return 0 if at is None else (at - _EPOCH) // _MICROSECOND


def _offsets(parts: Sequence[Sized]) -> NDArray[np.int32]:
    """Where each part begins, and where the last one ends."""
    return _sums([np.fromiter(map(len, parts), np.int32, len(parts))])


def _sums(sizes: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    every = np.concatenate([np.zeros(1, np.int32), *sizes])
    return np.cumsum(every, dtype=np.int32)


def _validity(there: NDArray[np.bool_] | None) -> pa.Buffer | None:
    import pyarrow as pa

    if there is None or there.all():
        return None
    return pa.py_buffer(np.packbits(there, bitorder="little"))
