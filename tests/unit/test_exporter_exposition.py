"""Numbers and lines in the format of Go."""

from __future__ import annotations

from math import inf, nan

import pytest

from fake_gpu.exporters.exposition import FamilyHead, SeriesLine, family_text, read_lines
from fake_gpu.exporters.numbers import (
    answer_text,
    exposition_text,
    parse_value,
    timestamp_text,
)


@pytest.mark.parametrize(
    ("value", "in_an_answer", "in_an_exposition"),
    [
        (0.0, "0", "0"),
        (1.0, "1", "1"),
        (-1.5, "-1.5", "-1.5"),
        (1794991640.0, "1794991640", "1.79499164e+09"),
        (1794991992.0, "1794991992", "1.794991992e+09"),
        (549755813888.0, "549755813888", "5.49755813888e+11"),
        (100000.0, "100000", "100000"),
        (1000000.0, "1000000", "1e+06"),
        (123456.0, "123456", "123456"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "0.00001", "1e-05"),
        (0.0000001, "1e-07", "1e-07"),
        (116.043, "116.043", "116.043"),
        (1e20, "100000000000000000000", "1e+20"),
        (1e21, "1e+21", "1e+21"),
        (1.7e308, "1.7e+308", "1.7e+308"),
        (1 / 3, "0.3333333333333333", "0.3333333333333333"),
        (inf, "+Inf", "+Inf"),
        (-inf, "-Inf", "-Inf"),
        (nan, "NaN", "NaN"),
    ],
)
def test_a_value_has_the_format_of_strconv(
    value: float, in_an_answer: str, in_an_exposition: str
) -> None:
    assert answer_text(value) == in_an_answer
    assert exposition_text(value) == in_an_exposition
    for text in (in_an_answer, in_an_exposition):
        assert str(parse_value(text)) == str(value)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (1435781451000, "1435781451"),
        (1435781451781, "1435781451.781"),
        (1435781451100, "1435781451.100"),
        (1435781451007, "1435781451.007"),
        (-1500, "-1.500"),
    ],
)
def test_a_time_has_three_decimals_or_none(milliseconds: int, text: str) -> None:
    assert timestamp_text(milliseconds) == text


def test_a_family_survives_a_round_trip() -> None:
    lines = [SeriesLine((("a", 'x"y\\z\n'), ("b", "")), 2.0), SeriesLine((), 0.5)]
    text = family_text(FamilyHead("m", "Some help."), lines)
    assert text == ('# HELP m Some help.\n# TYPE m gauge\nm{a="x\\"y\\\\z\\n",b=""} 2\nm 0.5\n')
    assert list(read_lines(text)) == [("m", lines[0]), ("m", lines[1])]
