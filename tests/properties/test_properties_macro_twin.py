"""The pricing macro and `domain.money.price_nanos` agree on random and extreme input."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import duckdb
import jinja2
import pytest

from domain.money import price_nanos
from warehouse.project import dbt_project_dir

SEED = 20261001


class _Adapter:
    """Dispatches a macro to its DuckDB version, by name."""

    def __init__(self, environment: dict[str, object]) -> None:
        self.environment = environment

    def dispatch(self, name: str, package: str) -> object:
        assert package == "gpu_ledger"
        return self.environment[f"duckdb__{name}"]


def macros() -> dict[str, object]:
    """The project's macros for DuckDB, without dbt."""
    names: dict[str, object] = {}
    environment = jinja2.Environment(extensions=["jinja2.ext.do"])
    environment.globals["adapter"] = _Adapter(names)
    environment.globals["return"] = lambda value: value
    for path in sorted((dbt_project_dir() / "macros").glob("*.sql")):
        text = path.read_text(encoding="utf-8")
        if "materialization" in text:  # a tag of dbt, without calculations
            continue
        module = environment.from_string(text).make_module(names)
        for name, macro in module.__dict__.items():
            if not name.startswith("_"):
                names[name] = macro
                environment.globals[name] = macro
    return names


@pytest.fixture(scope="module")
def price() -> str:
    macro = macros()["price_nanos"]
    assert callable(macro)
    return str(macro("device_seconds", "weight_numerator", "weight_denominator", "rate"))


def inputs(rng: random.Random) -> Iterator[tuple[int, int, int, int]]:
    seconds = [0, 1, 1799, 1800, 1801, 3599, 3600, 5400, 2_678_400, 26_784_000_000]
    weights = [Fraction(1), Fraction(1, 7), Fraction(15, 14), Fraction(3, 8), Fraction(1, 1000)]
    rates = [0, 1, 2, 3, 2_500_000_000, 999_999_999_999_999_999]
    for second in seconds:
        for weight in weights:
            for rate in rates:
                yield second, weight.numerator, weight.denominator, rate
    for _ in range(5000):
        denominator = rng.choice([1, 2, 4, 7, 8, 14, 56, rng.randint(1, 10_000)])
        numerator = rng.randint(0, denominator)
        yield rng.randint(0, 10**10), numerator, denominator, rng.randint(0, 10**14)
        # Exact halves: an odd number of half nanos.
        yield rng.choice([1800, 5400]) * rng.randint(0, 10**6), 1, 1, rng.randint(0, 10**6) * 2 + 1


def test_the_macro_and_its_twin_agree_to_the_nano(price: str) -> None:
    rows = list(inputs(random.Random(SEED)))
    connection = duckdb.connect()
    connection.execute(
        "create table charges (n bigint, device_seconds bigint, weight_numerator bigint, "
        "weight_denominator bigint, rate decimal(38, 0))"
    )
    values = ", ".join(f"({n}, {s}, {a}, {b}, {r})" for n, (s, a, b, r) in enumerate(rows))
    connection.execute(f"insert into charges values {values}")
    found = connection.execute(f"select n, {price}, typeof({price}) from charges order by n")
    for number, nanos, kind in found.fetchall():
        seconds, numerator, denominator, rate = rows[number]
        assert kind == "DECIMAL(38,0)"
        expected = price_nanos(seconds, Fraction(numerator, denominator), rate)
        assert int(nanos) == expected, rows[number]


def test_halves_go_to_the_even_neighbour(price: str) -> None:
    connection = duckdb.connect()
    halves = [(1800, 1), (1800, 3), (1800, 5), (5400, 1)]  # 0.5, 1.5, 2.5, 1.5 nanos
    for (seconds, rate), expected in zip(halves, [0, 2, 2, 2], strict=True):
        row = connection.execute(
            f"select {price} from (select {seconds} as device_seconds, 1 as weight_numerator, "
            f"1 as weight_denominator, {rate}::decimal(38, 0) as rate)"
        ).fetchone()
        assert row is not None
        assert int(row[0]) == expected
