"""Label matchers: four operators, anchored patterns, absent labels."""

from __future__ import annotations

import pytest

from fake_gpu.prometheus.matchers import BadPattern, Matcher, all_match


@pytest.mark.parametrize(
    ("matcher", "value", "matches"),
    [
        (Matcher("a", "=", "x"), "x", True),
        (Matcher("a", "=", "x"), "xx", False),
        (Matcher("a", "!=", "x"), "", True),
        (Matcher("a", "=~", "x|y"), "y", True),
        (Matcher("a", "=~", "x|y"), "xy", False),
        (Matcher("a", "=~", "x.*"), "xyz", True),
        (Matcher("a", "=~", "y"), "xyz", False),  # anchored on both sides
        (Matcher("a", "=~", ""), "", True),
        (Matcher("a", "=~", ".+"), "", False),
        (Matcher("a", "!~", "x.*"), "y", True),
        (Matcher("a", "!~", "x.*"), "x", False),
        (Matcher("a", "=~", "a$"), "a\n", False),
        (Matcher("a", "=~", "a$\n"), "a\n", False),  # $ is the very end of the text
        (Matcher("a", "=~", "[]a]b"), "]b", True),
        (Matcher("a", "=~", "[[]"), "[", True),
        (Matcher("a", "=~", r"\d+"), "٣", False),  # digits are ASCII
        (Matcher("a", "=~", "(?i)gpu.*"), "GPU-1", True),
        (Matcher("a", "=~", r"a\.b|c"), "axb", False),
        (Matcher("resource", "!~", "cpu|memory|hugepages[-_].+"), "hugepages_2Mi", False),
    ],
)
def test_a_matcher_matches_or_does_not(matcher: Matcher, value: str, matches: bool) -> None:
    assert matcher.matches(value) is matches


def test_an_absent_label_is_empty() -> None:
    assert all_match([Matcher("a", "=", ""), Matcher("b", "!=", "x")], {"c": "d"})
    assert not all_match([Matcher("a", "=~", ".+")], {"c": "d"})


@pytest.mark.parametrize(
    "pattern",
    ["(", "*", "a**", "(?=a)", "(?<!a)b", r"(a)\1", "a++", r"\pN", "[[:alpha:]]", "a\\"],
)
def test_patterns_that_re2_lacks_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        Matcher("a", "=~", pattern)
