"""The samples of a series of very many segments, all scrapes of an hour at once.

Put here: what `window` does segment by segment, for device metrics that change every minute.
Not here: series of a few segments, which are cheaper one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fake_gpu.prometheus.segments import AnySegment, Segment
from fake_gpu.prometheus.series import AnyPiece, TimeBlock, VaryingPiece

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# From here on arrays are quicker than a walk from segment to segment.
MANY_SEGMENTS = 48

# A block, the positions of the window in it, and the real times at these two ends.
Cut = tuple[TimeBlock, int, int, int, int]


class _Arrays:
    """Beginnings, ends and values of segments; no values when some of them are slopes."""

    def __init__(self, segments: Sequence[AnySegment]) -> None:
        import numpy as np

        self.starts = np.array([segment.from_ms for segment in segments], dtype=np.int64)
        self.ends = np.array([segment.until_ms for segment in segments], dtype=np.int64)
        levels = [segment.value for segment in segments if isinstance(segment, Segment)]
        whole = len(levels) == len(segments)
        self.values = np.array(levels, dtype=np.float64) if whole else None


def many_pieces(segments: Sequence[AnySegment], cuts: Sequence[Cut]) -> list[AnyPiece]:
    """The samples in order, block by block, as `Window.pieces` gives them."""
    arrays = _Arrays(segments)
    found: list[AnyPiece] = []
    for block, low, high, _, _ in cuts:
        real = block.real_array()[low:high]
        positions = arrays.starts.searchsorted(real, side="right") - 1
        inside = (positions >= 0) & (real < arrays.ends[positions])
        for first, last in _stretches(inside):
            numbers = _numbers(segments, arrays, positions[first:last], real[first:last])
            found.append(_piece(block, low + first, low + last, numbers))
    return found


def _stretches(inside: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Where scrapes found the series one after another."""
    if inside.all():
        yield 0, len(inside)
        return
    first: int | None = None
    for position, found in enumerate([*inside.tolist(), False]):
        if found and first is None:
            first = position
        elif not found and first is not None:
            yield first, position
            first = None


def _numbers(
    segments: Sequence[AnySegment],
    arrays: _Arrays,
    positions: npt.NDArray[np.int64],
    real: npt.NDArray[np.int64],
) -> list[float]:
    if arrays.values is not None:
        numbers: list[float] = arrays.values[positions].tolist()
        return numbers
    pairs = zip(positions.tolist(), real.tolist(), strict=True)
    return [
        segment.value if isinstance(segment, Segment) else segment.at(at)
        for position, at in pairs
        for segment in (segments[position],)
    ]


def _piece(block: TimeBlock, low: int, high: int, numbers: list[float]) -> AnyPiece:
    if numbers.count(numbers[0]) == len(numbers):
        return block.piece(low, high, numbers[0])
    return VaryingPiece(block, low, high, numbers)
