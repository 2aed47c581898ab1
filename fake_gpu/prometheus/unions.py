"""Vectors that become one: labels put on their series, and `or` between them.

Put here: `label_replace` and `or` over vectors that were evaluated already.
Not here: the vectors themselves (`evaluate`), the grammar (`language`).

The parts of a union are unchanged: their points are passed on, not copied, unless two vectors have
points under equal labels at one step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fake_gpu.prometheus.label_sets import LabelSet
from fake_gpu.prometheus.refusals import QueryRefused

SAME_LABELSET = "vector cannot contain metrics with the same labelset"
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Points:
    """One series of an answer: labels, and values at steps."""

    label_set: LabelSet
    times_ms: Sequence[int]
    values: Sequence[float]


def refuse_equal_labels(vector: Iterable[Points]) -> None:
    orders = [points.label_set.order for points in vector]
    if len(set(orders)) < len(orders):
        raise QueryRefused("execution", SAME_LABELSET)


def labelled(vector: Sequence[Points], label: str, text: str, *, any_name: bool) -> list[Points]:
    """All series with one more label, or another text of it; "" takes it away.

    Prometheus 3 takes any name for a label, and refuses series that become one even where they
    never meet at a step.
    """
    if not (label if any_name else _LABEL_NAME.fullmatch(label)):
        words = f"invalid destination label name in label_replace(): {label}"
        raise QueryRefused("execution", words)
    found = [Points(p.label_set.labelled(label, text), p.times_ms, p.values) for p in vector]
    if any_name:
        refuse_equal_labels(found)
        return found
    return _merged(found)


def united(vectors: Sequence[Sequence[Points]]) -> list[Points]:
    """One vector after the other. Of equal labels, the metric's name aside, the first counts.

    The first one is determined at each step.
    """
    used_times: dict[str, set[int]] = {}
    found: list[Points] = []
    for vector in vectors:
        new = [(points.label_set.nameless.order, points) for points in vector]
        kept = [(order, _at_other_steps(points, used_times.get(order))) for order, points in new]
        for order, points in kept:
            used_times.setdefault(order, set()).update(points.times_ms)
            if points.times_ms:
                found.append(points)
    return _merged(found)


def in_order(vector: Iterable[Points]) -> list[Points]:
    """In the order of labels, as a range query answers."""
    return sorted(vector, key=lambda points: points.label_set.order)


def _at_other_steps(points: Points, used_times: set[int] | None) -> Points:
    if used_times is None or used_times.isdisjoint(points.times_ms):
        return points
    pairs = zip(points.times_ms, points.values, strict=True)
    free = [(at, value) for at, value in pairs if at not in used_times]
    return Points(points.label_set, [at for at, _ in free], [value for _, value in free])


def _merged(vector: Sequence[Points]) -> list[Points]:
    """Series of equal labels as one, which they are where they are never there together."""
    by_labels: dict[str, Points] = {}
    for points in vector:
        order = points.label_set.order
        before = by_labels.get(order)
        by_labels[order] = points if before is None else _joined(before, points)
    return list(by_labels.values())


def _joined(one: Points, other: Points) -> Points:
    pairs = [pair for each in (one, other) for pair in zip(each.times_ms, each.values, strict=True)]
    values = dict(pairs)
    if len(values) < len(pairs):
        raise QueryRefused("execution", SAME_LABELSET)
    times = sorted(values)
    return Points(one.label_set, times, [values[at] for at in times])
