"""The JSON of responses, as a real server writes it.

Put here: the envelope, vectors, matrices, label sets.
Not here: their values (`evaluate`), status codes and headers (`app`).

Text is joined from fragments that series keep, instead of being encoded sample by sample: an hour
of a cluster is mostly a few distinct texts repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fake_gpu.exporters.numbers import answer_text, timestamp_text
from fake_gpu.prometheus.go_json import encode
from fake_gpu.prometheus.refusals import QueryRefused
from fake_gpu.prometheus.series import WindowSeries
from fake_gpu.prometheus.tables import Rows
from fake_gpu.prometheus.unions import Points


def success(data: str, warnings: Sequence[str] = (), infos: Sequence[str] = ()) -> str:
    """The envelope around data that is JSON already."""
    more = f',"warnings":{encode(list(warnings))}' if warnings else ""
    more += f',"infos":{encode(list(infos))}' if infos else ""
    return f'{{"status":"success","data":{data}{more}}}'


def refusal(refused: QueryRefused) -> str:
    """The envelope of an error."""
    return encode({"status": "error", "errorType": refused.error_type, "error": refused.message})


def scalar_data(pair: str, extra: str = "") -> str:
    return f'{{"resultType":"scalar","result":{pair}{extra}}}'


def query(kind: str, series: list[str], extra: str = "", warnings: Sequence[str] = ()) -> str:
    """The answer of a query: joined once, because it may be many megabytes."""
    before, after = success(f'{{"resultType":"{kind}","result":[\0]{extra}}}', warnings).split("\0")
    if not series:
        return before + after
    series[0] = before + series[0]
    series[-1] += after
    return ",".join(series)


def raw_matrix(found: Iterable[WindowSeries]) -> list[str]:
    """Raw samples, one text per series."""
    return [
        f'{{"metric":{series.label_set.text},"values":['
        f"{','.join([part.fragment() for part in series.parts])}]}}"
        for series in found
    ]


def rows_matrix(found: Iterable[Rows]) -> list[str]:
    """The same, of rows of tables."""
    return [text for rows in found for text in _rows(rows)]


def _rows(rows: Rows) -> Iterable[str]:
    heads = rows.table.heads()
    fragments = [block.fragment(low, high, value) for block, low, high, value in rows.cuts]
    pairs = zip(rows.owners, rows.which, strict=True)
    if len(set(rows.owners)) == len(rows.owners):
        return [f"{heads[owner]}{fragments[which]}]}}" for owner, which in pairs]
    parts: dict[int, list[str]] = {}
    for owner, which in pairs:
        parts.setdefault(owner, []).append(fragments[which])
    return [f"{heads[owner]}{','.join(own)}]}}" for owner, own in parts.items()]


def matrix(answers: Iterable[Points]) -> list[str]:
    """Values at steps, one text per series."""
    pairs = _Pairs()
    return [
        f'{{"metric":{points.label_set.text},"values":[{pairs.of(points)}]}}' for points in answers
    ]


def vector(answers: Iterable[Points]) -> list[str]:
    """The values at the only step, one text per series."""
    pairs = _Pairs()
    return [
        f'{{"metric":{points.label_set.text},"value":{pairs.of(points)}}}' for points in answers
    ]


def scalar(at_ms: int) -> str:
    """A time, with the number that it is."""
    return f'[{timestamp_text(at_ms)},"{answer_text(at_ms / 1000)}"]'


class _Pairs:
    """Times and values of one answer; series often share the very same ones."""

    def __init__(self) -> None:
        self._heads: dict[int, list[str]] = {}
        self._written: dict[tuple[int, int], str] = {}

    def of(self, points: Points) -> str:
        # Their owners, the points, live as long as the answer is written: no `id` comes again.
        key = id(points.times_ms), id(points.values)
        known = self._written.get(key)
        if known is None:
            heads = self._heads.get(key[0])
            if heads is None:
                heads = [f'[{timestamp_text(at)},"' for at in points.times_ms]
                self._heads[key[0]] = heads
            pairs = zip(heads, points.values, strict=True)
            known = '"],'.join([head + answer_text(value) for head, value in pairs]) + '"]'
            self._written[key] = known
        return known


def label_sets(sets: Iterable[Mapping[str, str]]) -> str:
    return encode([dict(sorted(labels.items())) for labels in sets])
