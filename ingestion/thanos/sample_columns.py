"""Samples: the values of a series as columns, from the JSON text `[[1790848800.123,"1"],…]`.

Put here: the columns, and decoding texts into them.
Not here: which series has which text, or runs (`ingestion.thanos.decode`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from clients.json_text import NOT_JSON

SECONDS_LIMIT = 10**15
"""Later times do not fit into 64 bits as milliseconds."""

_PAIRS = msgspec.json.Decoder(list[tuple[float, str]])

Text = bytes | msgspec.Raw


class MalformedSeries(ValueError):
    """A series inside a valid envelope that is not the protocol; the text describes the fault."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of many owners, one owner after the other: owner[i] is whose sample i is."""

    owner_count: int
    owner: NDArray[np.int64]
    time_ms: NDArray[np.int64]
    value: NDArray[np.int64]  # into values
    values: list[str]


def decode_texts(texts: Sequence[Text]) -> Samples:
    """The samples of every text; the owner of a sample is the place of its text."""
    lengths: list[int] = []
    seconds: list[float] = []
    words: list[str] = []
    for text in texts:
        try:
            pairs = _PAIRS.decode(text)
        except NOT_JSON as cause:
            raise MalformedSeries(f"values: {cause}") from None
        lengths.append(len(pairs))
        seconds += map(itemgetter(0), pairs)
        words += map(itemgetter(1), pairs)
    instants = np.array(seconds, np.float64)
    if (wrong := np.abs(instants) >= SECONDS_LIMIT).any():
        raise MalformedSeries(f"values: {instants[wrong][0]:g} is no time in seconds since 1970")
    places = {word: place for place, word in enumerate(dict.fromkeys(words))}
    return Samples(
        len(texts),
        np.repeat(np.arange(len(texts)), lengths),
        np.round(instants * 1000.0).astype(np.int64),
        np.fromiter(map(places.__getitem__, words), np.int64, len(words)),
        list(places),
    )


def join_samples(parts: Sequence[Samples]) -> Samples:
    """The samples of all parts. Owners are numbered through, and each value stands once."""
    places: dict[str, int] = {}
    owners, values = [], []
    owner_count = 0
    for part in parts:
        owners.append(part.owner + owner_count)
        owner_count += part.owner_count
        new_places = [places.setdefault(word, len(places)) for word in part.values]
        values.append(np.array(new_places, np.int64)[part.value])
    time_ms = np.concatenate([part.time_ms for part in parts])
    return Samples(
        owner_count, np.concatenate(owners), time_ms, np.concatenate(values), list(places)
    )
