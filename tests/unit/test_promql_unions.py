"""Functions on labels, and unions, on samples written by hand and compared with brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_gpu.prometheus.label_sets import LabelSet
from fake_gpu.prometheus.refusals import QueryRefused
from fake_gpu.prometheus.unions import SAME_LABELSET, Points, in_order, labelled, united

SeriesValues = list[tuple[dict[str, str], dict[int, float]]]


def points(values: dict[int, float], **labels: str) -> Points:
    return Points(LabelSet(labels.items()), list(values), list(values.values()))


def values_of(vector: list[Points]) -> SeriesValues:
    return [
        (dict(p.label_set.mapping), dict(zip(p.times_ms, p.values, strict=True))) for p in vector
    ]


def test_a_label_is_added_replaced_and_removed() -> None:
    vector = [points({1: 5.0}, pod="p"), points({1: 6.0}, pod="q", metric="old")]
    assert values_of(labelled(vector, "metric", "m", any_name=False)) == [
        ({"metric": "m", "pod": "p"}, {1: 5.0}),
        ({"metric": "m", "pod": "q"}, {1: 6.0}),
    ]
    assert values_of(labelled(vector, "metric", "", any_name=False)) == [
        ({"pod": "p"}, {1: 5.0}),
        ({"pod": "q"}, {1: 6.0}),
    ]


def test_series_that_become_equal_are_refused_if_they_overlap() -> None:
    apart = [points({1: 5.0}, pod="p"), points({2: 6.0}, pod="q")]
    assert values_of(labelled(apart, "pod", "x", any_name=False)) == [
        ({"pod": "x"}, {1: 5.0, 2: 6.0})
    ]
    together = [points({1: 5.0, 2: 4.0}, pod="p"), points({2: 6.0}, pod="q")]
    for vector, any_name in ((apart, True), (together, True), (together, False)):
        with pytest.raises(QueryRefused, match=SAME_LABELSET) as refused:
            labelled(vector, "pod", "x", any_name=any_name)
        assert refused.value.http_status == 422


def test_an_invalid_name_of_version_2_is_valid_in_3_unless_empty() -> None:
    vector = [points({1: 5.0}, pod="p")]
    assert values_of(labelled(vector, "a-b", "x", any_name=True)) == [
        ({"a-b": "x", "pod": "p"}, {1: 5})
    ]
    for label, any_name in (("a-b", False), ("", False), ("", True)):
        with pytest.raises(QueryRefused, match="invalid destination label name"):
            labelled(vector, label, "x", any_name=any_name)


def test_of_equal_labels_the_first_vector_counts_at_each_step() -> None:
    first = [points({1: 1.0, 3: 1.0}, __name__="a", pod="p")]
    second = [points({1: 2.0, 2: 2.0}, __name__="b", pod="p"), points({1: 7.0}, pod="q")]
    third = [points({2: 3.0, 4: 3.0}, __name__="b", pod="p")]
    assert values_of(united([first, second, third])) == [
        ({"__name__": "a", "pod": "p"}, {1: 1.0, 3: 1.0}),
        ({"__name__": "b", "pod": "p"}, {2: 2.0, 4: 3.0}),
        ({"pod": "q"}, {1: 7.0}),
    ]


def test_a_range_query_responds_in_the_order_of_labels() -> None:
    found = in_order(united([[points({1: 1.0}, pod="q")], [points({1: 2.0}, pod="p")]]))
    assert [labels["pod"] for labels, _ in values_of(found)] == ["p", "q"]


LABELS = st.fixed_dictionaries({}, optional={n: st.sampled_from("xy") for n in ("__name__", "pod")})
SERIES = st.tuples(LABELS, st.dictionaries(st.integers(1, 4), st.integers(1, 9).map(float)))


def _one_vector(series: SeriesValues) -> SeriesValues:
    """A vector like the evaluator's: unique labels, at least one value."""
    return list({tuple(sorted(labels.items())): (labels, v) for labels, v in series if v}.values())


@given(st.lists(st.lists(SERIES, max_size=4).map(_one_vector), max_size=4))
def test_a_union_equals_its_definition_at_every_step(vectors: list[SeriesValues]) -> None:
    expected: dict[tuple[tuple[str, str], ...], dict[int, float]] = {}
    for step in range(1, 5):
        seen: set[frozenset[tuple[str, str]]] = set()
        for vector in vectors:
            here = [(labels, values[step]) for labels, values in vector if step in values]
            told_apart = [frozenset(labels.items() - {("__name__", "x"), ("__name__", "y")})
                          for labels, _ in here]  # fmt: skip
            for (labels, value), signature in zip(here, told_apart, strict=True):
                if signature not in seen:
                    expected.setdefault(tuple(sorted(labels.items())), {})[step] = value
            seen.update(told_apart)
    given_points = [[points(values, **labels) for labels, values in vector] for vector in vectors]
    found = values_of(united(given_points))
    assert {tuple(sorted(labels.items())): values for labels, values in found} == expected
    assert len(found) == len(expected)
