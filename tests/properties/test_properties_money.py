"""Money over random input: lines add up, no line is off by a cent, roundings agree.

Put here: properties of `domain.money`, compared with `fractions`, `decimal` and brute force.
Not here: sums calculated by hand (`tests/unit/test_money`).

`make test` rounds the same 100,000 random invoices in every run, `make explore` others, a thousand
for each of its `N`.
"""

from __future__ import annotations

import itertools
import os
import random
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import InvalidValue
from domain.money import (
    LARGEST_NANOS,
    apportion,
    divide_rounding_half_even,
    format_nanos,
    parse_nanos,
    price_nanos,
    round_lines_to_minor_units,
)

SEED = int(os.environ.get("SEED", "1"))
SEEDS = range(1, 101)
EXPLORED = range(SEED, SEED + int(os.environ.get("N", "1000")))
INVOICES_PER_SEED = 1_000
CENT = 10_000_000

EXACT = Context(prec=100, rounding=ROUND_HALF_EVEN)
UNBOUNDED = st.integers(-(10**60), 10**60)
WEIGHTS = st.fractions(min_value=0, max_value=1, max_denominator=56)


def random_line(random_source: random.Random) -> int:
    """Nanos: ordinary, tiny, at a cent's edge, at half a cent, negative, or very large."""
    kind = random_source.randrange(8)
    if kind < 3:
        return random_source.randrange(100_000 * CENT)
    if kind == 3:
        return random_source.randrange(-2 * CENT, 2 * CENT)
    if kind == 4:
        return random_source.randrange(-50, 50) * CENT + random_source.choice((-1, 0, 1))
    if kind == 5:
        return random_source.randrange(-50, 50) * CENT + CENT // 2
    if kind == 6:
        return -random_source.randrange(1_000 * CENT)
    return random_source.randrange(10**30)


def wrong_about_invoice(lines: dict[str, int]) -> str:
    """The error in the rounded invoice; empty if there is none."""
    invoice = round_lines_to_minor_units(lines, "EUR")
    exact = sum(lines.values())
    # Python rounds integers half to even as well, without our code.
    if invoice.exact_nanos != exact or invoice.total_nanos != round(exact, -7):
        return f"the total is {invoice.total_nanos}, of exactly {exact}"
    rounded = invoice.lines
    if sum(rounded.values()) != invoice.total_nanos:
        return f"lines add up to {sum(rounded.values())}, the total is {invoice.total_nanos}"
    for key, nanos in lines.items():
        if rounded[key] % CENT:
            return f"line {key} is no whole cent: {rounded[key]}"
        if not -CENT < rounded[key] - nanos < CENT:
            return f"line {key} of {nanos} became {rounded[key]}"
    return ""


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(SEEDS, id="the-same"),
        pytest.param(EXPLORED, id=f"from-{SEED}", marks=pytest.mark.explore),
    ],
)
def test_random_invoices_add_up_and_no_line_is_a_cent_off(seeds: range) -> None:
    for seed in seeds:
        random_source = random.Random(seed)
        for _ in range(INVOICES_PER_SEED):
            size = random_source.choice((1, 2, 3, 5, 8))
            lines = {f"line-{n}": random_line(random_source) for n in range(size)}
            wrong = wrong_about_invoice(lines)
            assert not wrong, f"SEED={seed}: {wrong}; lines {lines}"


def test_the_order_of_lines_changes_no_invoice() -> None:
    random_source = random.Random(1)
    for _ in range(2_000):
        # Few different amounts, so that many are equal.
        lines = {f"pod-{n}": random_source.choice((3, 5, 7)) * CENT // 9 for n in range(9)}
        shuffled = list(lines.items())
        random_source.shuffle(shuffled)
        first = round_lines_to_minor_units(lines, "EUR")
        assert round_lines_to_minor_units(dict(shuffled), "EUR") == first


def test_a_raised_line_never_has_the_smaller_remainder_or_the_later_key() -> None:
    random_source = random.Random(1)
    for _ in range(2_000):
        lines = {f"{n}": random_source.randrange(5) * CENT // 4 for n in range(6)}
        rounded = round_lines_to_minor_units(lines, "EUR").lines
        rank = {key: (-(nanos % CENT), key) for key, nanos in lines.items()}
        raised = [rank[key] for key in lines if rounded[key] > lines[key]]
        left = [rank[key] for key in lines if rounded[key] < lines[key]]
        assert max(raised, default=(-CENT, "")) < min(left, default=(1, "")), lines


@given(numerator=UNBOUNDED, denominator=st.integers(1, 10**40))
def test_the_rounding_is_that_of_fractions_and_of_decimal(numerator: int, denominator: int) -> None:
    rounded = divide_rounding_half_even(numerator, denominator)
    assert rounded == round(Fraction(numerator, denominator))
    in_decimal = EXACT.divide(Decimal(numerator), Decimal(denominator))
    assert abs(rounded - in_decimal) <= Decimal("0.5")


@given(whole=UNBOUNDED, denominator=st.integers(1, 10**30))
def test_exact_halves_go_to_the_even_neighbour(whole: int, denominator: int) -> None:
    half = divide_rounding_half_even((2 * whole + 1) * denominator, 2 * denominator)
    assert half % 2 == 0
    assert half in (whole, whole + 1)


@given(
    device_seconds=st.integers(0, 10**12),
    weight=WEIGHTS,
    rate=st.integers(0, 10**15),
)
def test_a_price_is_the_exact_product_rounded_once(
    device_seconds: int, weight: Fraction, rate: int
) -> None:
    exact = weight * device_seconds * rate / 3600
    assert price_nanos(device_seconds, weight, rate) == round(exact)
    assert price_nanos(device_seconds, Fraction(1), rate) == round(
        Fraction(device_seconds * rate, 3600)
    )


@given(
    device_seconds=st.integers(0, 10**9),
    weight=WEIGHTS,
    rate=st.integers(0, 10**13),
    factor=st.integers(0, 1000),
)
def test_k_times_the_price_is_k_times_the_total_up_to_rounding(
    device_seconds: int, weight: Fraction, rate: int, factor: int
) -> None:
    one = price_nanos(device_seconds, weight, rate)
    many = price_nanos(device_seconds, weight, factor * rate)
    assert abs(many - factor * one) <= Fraction(factor + 1, 2)


@given(
    pieces=st.lists(st.integers(0, 10**7), min_size=1, max_size=30),
    weight=WEIGHTS,
    rate=st.integers(0, 10**13),
)
def test_splitting_the_seconds_and_apportioning_the_price_changes_no_total(
    pieces: list[int], weight: Fraction, rate: int
) -> None:
    total = price_nanos(sum(pieces), weight, rate)
    if sum(pieces) == 0:
        assert total == 0
        return
    parts = apportion(total, {f"{n:02}": seconds for n, seconds in enumerate(pieces)})
    assert sum(parts.values()) == total
    for part, seconds in zip(parts.values(), pieces, strict=True):
        assert abs(part - Fraction(total * seconds, sum(pieces))) < 1


@given(
    total=st.integers(-LARGEST_NANOS, LARGEST_NANOS),
    weights=st.dictionaries(
        st.text(max_size=3), st.one_of(st.integers(0, 10**20), WEIGHTS), min_size=1, max_size=12
    ),
)
def test_parts_add_up_at_any_size_and_a_void_undoes_them(
    total: int, weights: dict[str, int | Fraction]
) -> None:
    whole = sum(Fraction(weight) for weight in weights.values())
    if whole == 0:
        return
    parts = apportion(total, weights)
    assert list(parts) == list(weights)
    assert sum(parts.values()) == total
    for key, weight in weights.items():
        assert abs(parts[key] - total * weight / whole) < 1
    assert apportion(-total, weights) == {key: -part for key, part in parts.items()}


def nearest_by_brute_force(total: int, weights: dict[str, int]) -> dict[str, int]:
    """Of all divisions of `total`, the one nearest to the exact shares; ties go to early keys."""
    keys, whole = sorted(weights), sum(weights.values())
    exact = [Fraction(total * weights[key], whole) for key in keys]
    ways = itertools.product(range(total + 1), repeat=len(keys) - 1)
    complete = [(*way, total - sum(way)) for way in ways if sum(way) <= total]
    best = min(
        complete,
        key=lambda way: (
            sum((part - share) ** 2 for part, share in zip(way, exact, strict=True)),
            [-part for part in way],
        ),
    )
    return dict(zip(keys, best, strict=True))


@given(
    total=st.integers(0, 12),
    weights=st.dictionaries(
        st.sampled_from("abcd"), st.integers(0, 6), min_size=1, max_size=4
    ).filter(lambda weights: sum(weights.values()) > 0),
)
def test_largest_remainder_is_the_nearest_of_all_ways(total: int, weights: dict[str, int]) -> None:
    assert apportion(total, weights) == nearest_by_brute_force(total, weights)


@given(nanos=st.integers(-LARGEST_NANOS, LARGEST_NANOS), fewest=st.integers(0, 9))
def test_written_money_reads_back_here_and_in_decimal(nanos: int, fewest: int) -> None:
    text = format_nanos(nanos, fewest)
    assert parse_nanos(text) == nanos
    assert EXACT.create_decimal(text) == EXACT.scaleb(Decimal(nanos), -9)
    assert "e" not in text.lower()


NUMBER_LIKE = st.text(alphabet="0123456789.,-+eE_ x\x00½٣\n=", max_size=50)


@given(text=st.one_of(NUMBER_LIKE, st.text(max_size=50), st.decimals().map(str)))
def test_any_text_is_read_exactly_or_refused(text: str) -> None:
    try:
        nanos = parse_nanos(text)
    except InvalidValue:
        return
    assert EXACT.scaleb(Decimal(nanos), -9) == Decimal(text.strip())


@pytest.mark.parametrize("nanos", [LARGEST_NANOS, -LARGEST_NANOS])
def test_the_largest_total_is_still_apportioned(nanos: int) -> None:
    parts = apportion(nanos, {str(n): 10**18 + n for n in range(1_000)})
    assert sum(parts.values()) == nanos
