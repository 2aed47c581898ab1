"""The models stay in the SQL that DuckDB and Spark share, but for macros that both have.

Put here: what is held by reading them. Not here: counting with them, which a real Spark does on
demand (`python -m tests.another_engine`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from sqlglot import Token, TokenType, exp, parse_one, tokenize
from sqlglot.errors import SqlglotError

from tests.models_in_spark import every_macro, models, rendered
from warehouse.placement import FUNCTION
from warehouse.project import dbt_project_dir

# Of these names, and with this meaning, in both. One that is missing may be added when Spark's
# own list has it: https://spark.apache.org/docs/latest/api/sql/
OF_BOTH = {
    "abs", "mod", "percentile_disc",
    "any_value", "array_contains", "bool_and", "bool_or", "cast", "coalesce", "count",
    "dense_rank", "greatest", "lag", "lead", "least", "length", "max", "max_by", "min",
    "min_by", "nullif", "replace", "round", "row_number", "substr", "sum", "try_cast",
}  # fmt: skip
# Of Spark alone: in its macros.
OF_SPARK = {
    "array", "array_sort", "collect_list", "explode", "last_value", "map_entries",
    "map_from_entries", "sequence", "struct", "timestamp_seconds", "to_json", "unix_millis",
    "unix_seconds",
}  # fmt: skip
# Of Python, made known to both (`warehouse.placement`).
OF_PYTHON = {FUNCTION}
TYPES = {"ARRAY<BIGINT>", "BIGINT", "DECIMAL(38, 0)", "DECIMAL(38, 6)", "DOUBLE", "STRING"}
# Of whole numbers, `/` is a floating-point number in both; the others are read by DuckDB alone.
NEVER = (exp.Div, exp.Pivot, exp.Lambda)


def strange(sql: str) -> Iterator[str]:
    """What Spark does not read, or reads otherwise."""
    try:
        tree = parse_one(sql, read="spark")
    except SqlglotError as refused:
        yield f"not read: {str(refused).splitlines()[0]}"
        return
    yield from (f"{type(node).__name__.lower()}: {node.sql()}" for node in tree.find_all(*NEVER))
    yield from (
        f"function: {name}" for name in sorted(_functions(sql) - OF_BOTH - OF_SPARK - OF_PYTHON)
    )
    types = {cast.to.sql("spark") for cast in tree.find_all(exp.Cast)}
    yield from (f"type: {name}" for name in sorted(types - TYPES))
    for token, following in _pairs(sql):
        if token.text.lower() == "varchar" and following.token_type is not TokenType.L_PAREN:
            yield "type: varchar without a length"
        if token.text == "*" and following.text.lower() in ("exclude", "replace"):
            yield f"{following.text.lower()}: columns left out of a star"
        if token.text.lower() == "asof":
            yield "asof join"
        if following.text.lower() == "nulls" and token.text.lower() in ("ignore", "respect"):
            yield f"{token.text} nulls inside of a function"
    if any(sql[t.start] == '"' for t in tokenize(sql, read="spark")):
        yield "a name in double quotes, which is a text"
    for select in tree.find_all(exp.Select):
        explodes = [e for e in select.expressions if e.find(exp.Explode)]
        if len(explodes) > 1 or any(not isinstance(e.unalias(), exp.Explode) for e in explodes):
            yield "explode beside another one, or inside of something"


def _pairs(sql: str) -> Iterator[tuple[Token, Token]]:
    tokens = tokenize(sql, read="spark")
    return pairwise(tokens)


def _functions(sql: str) -> set[str]:
    """Names that stand directly before a bracket; between a word and its bracket is a blank."""
    return {
        token.text.lower()
        for token, following in _pairs(sql)
        if following.token_type is TokenType.L_PAREN
        and token.end + 1 == following.start
        and token.text[:1].isalpha()
        and token.text.lower() != "decimal"
    }


@pytest.mark.parametrize("path", models(), ids=lambda path: path.stem)
def test_every_model_is_read_by_spark_as_by_duckdb(path: Path) -> None:
    assert list(strange(rendered(path))) == []


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select a // b from t", "not read"),
        ("select * exclude (a) from t", "exclude"),
        ("select a / b from t", "div"),
        ("select list_transform(a, lambda x: x + 1) from t", "not read"),
        ("select a from t asof join u using (a)", "asof"),
        ("select epoch_us(a) from t", "function: epoch_us"),
        ("select unnest(a) from t", "function: unnest"),
        ("select list(struct_pack(a)) from t", "function: list"),
        ("select cast(a as varchar) from t", "type: varchar"),
        ("select cast(a as timestamptz) from t", "type: TIMESTAMP"),
        ("select last_value(a ignore nulls) over (order by b) from t", "ignore nulls"),
        ('select "a" from t', "a name in double quotes"),
        ("select explode(a) + 1 from t", "explode"),
    ],
)
def test_what_only_duckdb_reads_is_found(sql: str, found: str) -> None:
    assert any(one.startswith(found) for one in strange(sql))


def test_what_one_engine_spells_otherwise_both_have() -> None:
    names = set(every_macro())
    by_engine = {
        engine: {n.removeprefix(f"{engine}__") for n in names if n.startswith(f"{engine}__")}
        for engine in ("duckdb", "spark")
    }
    assert by_engine["duckdb"] == by_engine["spark"] <= names
    assert len(by_engine["spark"]) >= 9


def test_types_of_contracts_have_a_name_in_spark() -> None:
    """dbt writes a contract's types for the engine it runs on; these two it spells otherwise."""
    lines = [
        line.split("data_type:")[1].strip()
        for path in (dbt_project_dir() / "models").rglob("*.yml")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "data_type:" in line
    ]
    of_both = {"bigint", "boolean", "date", "decimal(38,0)", "integer"}
    assert set(lines) - of_both == {"varchar", "timestamp with time zone"}
