"""The query language, from text to matchers, ranges and functions."""

from __future__ import annotations

import pytest

from fake_gpu.prometheus.language import (
    SPOKEN,
    Call,
    LabelledVector,
    Selector,
    Union,
    parse_query,
    parse_selector,
)
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.refusals import ParseError

UP = Matcher("__name__", "=", "up")
DOWN = Matcher("__name__", "=", "down")


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("up", Selector((UP,))),
        ("  up # the health\n", Selector((UP,))),
        ('up{job="a"}', Selector((Matcher("job", "=", "a"), UP))),
        ('up{job!="a",}', Selector((Matcher("job", "!=", "a"), UP))),
        ('{__name__=~"a|b"}', Selector((Matcher("__name__", "=~", "a|b"),))),
        ("up{job!~'x.*'}[1h]", Selector((Matcher("job", "!~", "x.*"), UP), 3_600_000)),
        ("up[1h30m] offset 1ms", Selector((UP,), 5_400_000, 1)),
        ("up offset -5m", Selector((UP,), None, -300_000)),
        ("up{a=`x\\d`}", Selector((Matcher("a", "=", "x\\d"), UP))),
        ('up{a="\\x41\\u00e9\\n"}', Selector((Matcher("a", "=", "Aé\n"), UP))),
        ("job:up:sum", Selector((Matcher("__name__", "=", "job:up:sum"),))),
        ("((up))", Selector((UP,))),
        ("max_over_time(up[5m])", Call("max_over_time", Selector((UP,), 300_000))),
        (
            "count_over_time((up[1h] offset 1ms))",
            Call("count_over_time", Selector((UP,), 3_600_000, 1)),
        ),
        ('label_replace(up,"a","b","","")', LabelledVector(Selector((UP,)), "a", "b")),
        (
            'label_replace(max_over_time(up[5m]), "a", "", "", "")',
            LabelledVector(Call("max_over_time", Selector((UP,), 300_000)), "a", ""),
        ),
        ("up or down", Union((Selector((UP,)), Selector((DOWN,))))),
        ("up OR (down or up)", Union((Selector((UP,)), Selector((DOWN,)), Selector((UP,))))),
        ("(up or down) or up", Union((Selector((UP,)), Selector((DOWN,)), Selector((UP,))))),
        (
            'label_replace(up,"a","b","","") or max_over_time(up[5m])',
            Union(
                (
                    LabelledVector(Selector((UP,)), "a", "b"),
                    Call("max_over_time", Selector((UP,), 300_000)),
                )
            ),
        ),
    ],
)
def test_supported_queries_are_parsed(query: str, meant: object) -> None:
    assert parse_query(query) == meant


@pytest.mark.parametrize(
    "query",
    [
        "sum(up)",
        "sum by (job) (up)",
        "count(up) by (job)",
        "rate(up[5m])",
        "sum_over_time(up[5m])",
        "up + 1",
        "up == 1",
        "up @ 1600000000",
        "up[5m:1m]",
        "1",
        '"text"',
        "-up",
        "up and up",
        "up unless up",
        "up or on (job) up",
        "up or 1",
        'label_replace(up,"job","$1","","")',
        'label_replace(up,"job","x","instance","")',
        'label_replace(up,"job","x","","(.*)")',
        'label_replace(up or up,"job","x","","")',
        'label_replace(label_replace(up,"a","x","",""),"b","x","","")',
        'label_replace(up,"job","x","",1)',
        'label_join(up,"job","x")',
    ],
)
def test_other_promql_is_refused_with_the_supported_syntax(query: str) -> None:
    with pytest.raises(ParseError) as refused:
        parse_query(query)
    assert SPOKEN in str(refused.value)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "1:1: parse error: no expression found in input"),
        ("up{", "unexpected end of input in label matching"),
        ("up{job}", 'unexpected "}" in label matching, expected label matching operator'),
        ("up{job=1}", 'unexpected number "1" in label matching, expected string'),
        ('up{job="a" b="c"}', "unexpected identifier"),
        ('up{__name__="down"}', 'metric name must not be set twice: "up" or "down"'),
        ('{job=~".*"}', "vector selector must contain at least one non-empty matcher"),
        ("{}", "vector selector must contain at least one non-empty matcher"),
        ("up[0s]", "duration must be greater than 0"),
        ("up[1h", 'unexpected end of input in matrix selector, expected "]"'),
        ("up[5]", 'not a valid duration string: "5"'),
        ("up offset 5m [1h]", "no offset modifiers allowed before range"),
        ("max_over_time(up)", "expected type range vector in call to function"),
        ("max_over_time()", "expected 1 argument(s)"),
        ("max_over_time(up[5m], up[5m])", "expected 1 argument(s)"),
        ("max_over_time(up or up)", "expected type range vector in call to function"),
        ("up or", "no expression found"),
        ("up[5m] or up", 'set operator "or" not allowed in binary range expression'),
        ('label_replace(up[5m],"a","b","","")', "expected type instant vector in call"),
        ('label_replace(up,"a","b","")', "expected 5 argument(s)"),
        ('label_replace(up,"a","b","","","")', "expected 5 argument(s)"),
        ('up{a="b', "unterminated quoted string"),
        ('up{a=~"("}', "error parsing regexp"),
        ("\nup{?}", "2:4: parse error: unexpected character"),
    ],
)
def test_a_syntax_error_is_named_with_its_position(query: str, words: str) -> None:
    with pytest.raises(ParseError) as refused:
        parse_query(query)
    assert words in str(refused.value)


def test_a_series_selector_has_neither_range_nor_function() -> None:
    assert parse_selector('up{job="a"}') == (Matcher("job", "=", "a"), UP)
    for text in ("up[5m]", "max_over_time(up[5m])", "up offset 5m"):
        with pytest.raises(ParseError):
            parse_selector(text)
