"""The fast decoder and a naive one decode any response to the same runs.

Put here: the differential properties of `ingestion.thanos.decode`.
Not here: situations with runs calculated by hand (`tests/unit/test_thanos_decode`).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.identity import sha256
from ingestion.thanos.decode import DecodeWindow, Runs, SeriesDictionary, decode_runs
from ingestion.thanos.response import read_matrix_body
from ingestion.thanos.sample_columns import MalformedSeries, decode_texts
from ingestion.thanos.series import series_name

HOUR_MS = 3_600_000
START_MS = 1_790_848_800_000  # 2026-10-01T10:00:00Z
OVERLAP_MS = 30_000
REPLICA = "replica"


def naive_runs(body: bytes, look: DecodeWindow) -> set[tuple[Any, ...]]:
    """The runs by json.loads, dictionaries and loops: slow, but simple to verify by reading."""
    samples: dict[str, set[tuple[int, str]]] = {}
    for series in json.loads(body)["data"]["result"]:
        labels = {k: v for k, v in series["metric"].items() if k != REPLICA}
        name = json.dumps(labels, sort_keys=True)
        for seconds, value in series.get("values", []):
            millis = round(seconds * 1000)
            if look.queried_from_ms <= millis <= look.queried_until_ms:
                samples.setdefault(name, set()).add((millis, value))
    runs: set[tuple[Any, ...]] = set()
    for name, points in samples.items():
        cut: list[list[tuple[int, str]]] = []
        for point in sorted(points):
            if not cut or breaks(cut[-1][-1], point, look):
                cut.append([])
            cut[-1].append(point)
        for place, run in enumerate(cut):
            first, last = run[0][0], run[-1][0]
            if look.started_ms <= first < look.ended_ms:
                reach = [first, last]
                hour = first // HOUR_MS * HOUR_MS
                if place and goes_on(cut[place - 1][-1], run[0], look):
                    reach[0] = neighbour(cut[place - 1][-1][0], hour, first)
                if place + 1 < len(cut) and goes_on(run[-1], cut[place + 1][0], look):
                    reach[1] = neighbour(cut[place + 1][0][0], hour, last)
                runs.add((name, first, last, tuple(reach), len(run), run[0][1]))
    return runs


def neighbour(millis: int, hour: int, own: int) -> int:
    """The neighbour if a query for this hour alone returns it too; else the run's own sample."""
    return millis if hour - OVERLAP_MS <= millis <= hour + HOUR_MS + OVERLAP_MS else own


def goes_on(left: tuple[int, str], right: tuple[int, str], look: DecodeWindow) -> bool:
    return left[1] == right[1] and right[0] - left[0] <= look.gap_ms


def breaks(left: tuple[int, str], right: tuple[int, str], look: DecodeWindow) -> bool:
    return not goes_on(left, right, look) or left[0] // HOUR_MS != right[0] // HOUR_MS


def as_set(runs: Runs) -> set[tuple[Any, ...]]:
    rows = [
        (
            json.dumps({"__name__": one.metric, **one.labels}, sort_keys=True),
            int(runs.first_ms[row]),
            int(runs.last_ms[row]),
            (int(runs.reaches_from_ms[row]), int(runs.reaches_until_ms[row])),
            int(runs.sample_count[row]),
            runs.values[runs.value_index[row]],
        )
        for row in range(len(runs))
        for one in [runs.series[runs.series_index[row]]]
    ]
    assert len(rows) == len(set(rows))
    assert all(
        int(h) == int(f) // HOUR_MS * HOUR_MS
        for h, f in zip(runs.hour_ms, runs.first_ms, strict=True)
    )
    return set(rows)


labels = st.fixed_dictionaries(
    {"__name__": st.sampled_from(["up", "requests"])},
    optional={
        "pod": st.sampled_from(["a", "b", 'q"uo\\te', "ünïcödé", "x],[y"]),
        REPLICA: st.sampled_from(["0", "1"]),
    },
)
values = st.sampled_from(["0", "1", "2", "NaN", "+Inf", "-1.5", "1e+06", "0.30000000000000004"])
odd_values = st.sampled_from(["1", "],[", 'a"b', "", "1,2", "\n"])


def pairs(texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[list[Any]]]:
    near_the_edges = [(START_MS + edge, 90_000) for edge in (0, HOUR_MS, 2 * HOUR_MS)]
    moments = st.one_of(
        st.integers(START_MS - 90_000, START_MS + 2 * HOUR_MS + 90_000),
        *(st.integers(edge - reach, edge + reach) for edge, reach in near_the_edges),
    ).map(lambda ms: ms // 1000 if ms % 3 == 0 else ms / 1000)
    return st.lists(st.tuples(moments, texts).map(list), max_size=12)


def answers(texts: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    series = st.fixed_dictionaries({"metric": labels}, optional={"values": pairs(texts)})
    return st.lists(series, max_size=8).map(
        lambda result: {"status": "success", "data": {"resultType": "matrix", "result": result}}
    )


look = DecodeWindow(
    START_MS, START_MS + 2 * HOUR_MS, 45_000, START_MS - 30_000, START_MS + 2 * HOUR_MS + 30_000
)


def both(
    answer: dict[str, Any], separators: tuple[str, str], ascii_only: bool
) -> tuple[set[tuple[Any, ...]], set[tuple[Any, ...]]]:
    """The runs of a response, from our decoder and from the naive one."""
    body = json.dumps(answer, separators=separators, ensure_ascii=ascii_only).encode()
    found = decode_runs(read_matrix_body(body).series, SeriesDictionary([REPLICA]), look)
    return as_set(found), naive_runs(body, look)


@given(answers(values), st.booleans())
def test_compact_responses_decode_like_the_naive_reader(
    answer: dict[str, Any], ascii_only: bool
) -> None:
    ours, naive = both(answer, (",", ":"), ascii_only)
    assert ours == naive


@given(answers(st.one_of(values, odd_values)), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_responses_with_spaces_and_odd_values_decode_the_same(
    answer: dict[str, Any], separators: tuple[str, str]
) -> None:
    ours, naive = both(answer, separators, True)
    assert ours == naive


@given(answers(values), answers(values))
def test_a_reused_dictionary_changes_no_run(first: dict[str, Any], second: dict[str, Any]) -> None:
    remembered = SeriesDictionary([REPLICA], limit=3)
    for answer in (first, second, first):
        body = json.dumps(answer, separators=(",", ":")).encode()
        found = decode_runs(read_matrix_body(body).series, remembered, look)
        assert as_set(found) == naive_runs(body, look)


@given(answers(values), st.sampled_from([0, 60]))
def test_runs_are_the_same_however_many_series_are_read_at_once(
    answer: dict[str, Any], at_once_bytes: int
) -> None:
    """Includes replicas with equal text: compares runs, counts of replicas and facts."""
    body = json.dumps(answer, separators=(",", ":")).encode()
    raw = read_matrix_body(body).series
    some, all_at_once = (
        decode_runs(raw, SeriesDictionary([REPLICA]), look, size)
        for size in (at_once_bytes, 1 << 20)
    )
    assert as_rows(some) == as_rows(all_at_once)
    assert (some.raw_counts, some.facts) == (all_at_once.raw_counts, all_at_once.facts)


def as_rows(runs: Runs) -> list[tuple[Any, ...]]:
    """Every run in order, with its value as text."""
    reach = (runs.reaches_from_ms, runs.reaches_until_ms)
    times = (runs.hour_ms, runs.first_ms, runs.last_ms, *reach)
    columns = (runs.series_index, *times, runs.sample_count)
    words = [runs.values[place] for place in runs.value_index]
    return list(zip(*(column.tolist() for column in columns), words, strict=True))


written_times = st.from_regex(r"1790848[0-9]{3}(\.[0-9]{1,4})?", fullmatch=True)
written_values = st.one_of(
    values,
    st.sampled_from(["1.790848800e+09", "1.790848801e+09", "12345678", "1234567890.12345678"]),
)
odd_times = st.sampled_from(
    ["179084880", "1790848800.", "17908488001", "1.790848800e9", "1790848800e1", "-179084880.12"]
)


@given(st.lists(st.lists(st.tuples(written_times, written_values), max_size=6), max_size=5))
def test_columns_of_samples_equal_python_json(pairs: list[list[tuple[str, str]]]) -> None:
    texts = [as_text(text) for text in pairs]
    assert read(texts) == read_by_json(texts)


odd_pairs = st.lists(
    st.tuples(st.one_of(written_times, odd_times), st.one_of(written_values, odd_values)),
    min_size=1,
    max_size=2,
)


@given(odd_pairs)
def test_unusual_texts_of_samples_are_read_as_json_or_refused(pairs: list[tuple[str, str]]) -> None:
    try:
        json.loads(text := as_text(pairs))
    except ValueError:
        with pytest.raises(MalformedSeries):
            decode_texts([text])
        return
    texts = [as_text([("1790848800", "1")]), text]
    assert read(texts) == read_by_json(texts)


@pytest.mark.parametrize("text", [b"{}", b'""', b"12", b"[", b"1", b"[[]]", b"null"])
def test_a_short_text_is_none_only_where_it_is_an_empty_list(text: bytes) -> None:
    one = as_text([("1790848800", "1")])
    for texts in ([text], [b"[]", text], [one, text], [text, one]):
        with pytest.raises(MalformedSeries):
            decode_texts(texts)


def as_text(pairs: list[tuple[str, str]]) -> bytes:
    return f"[{','.join(f'[{at},{json.dumps(value)}]' for at, value in pairs)}]".encode()


Rows = list[tuple[int, int, str]]


def read(texts: list[bytes]) -> Rows:
    """Owner, milliseconds and value of every sample."""
    found = decode_texts(texts)
    assert found.owner_count == len(texts)
    assert len(found.values) == len(set(found.values))
    words = [found.values[place] for place in found.value]
    return list(zip(found.owner.tolist(), found.time_ms.tolist(), words, strict=True))


def read_by_json(texts: list[bytes]) -> Rows:
    return [
        (owner, round(seconds * 1000), value)
        for owner, text in enumerate(texts)
        for seconds, value in json.loads(text)
    ]


@given(st.dictionaries(st.text(), st.text()))
def test_a_series_name_is_the_canonical_hash_of_its_labels(found: dict[str, str]) -> None:
    assert series_name(found) == sha256(found)[:32]
