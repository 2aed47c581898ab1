"""The models as SQL for Spark: their templates rendered with the macros for Spark.

Put here: rendering a template as dbt would for another engine, without that engine's adapter.
Not here: running the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from warehouse.project import dbt_project_dir

MACRO = re.compile(r"{%-? macro (\w+)\(.*?endmacro -?%}", re.DOTALL)
OF_DUCKDB = ("made_once.sql", "refuse_closed_period.sql", "schema_names.sql")
"""Macros for running dbt, which do not occur in a model's query."""


class _Returned(Exception):
    """The value of dbt's `return` in a macro, which replaces the text of the macro."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Adapter:
    """dbt's `adapter` with the function that models use: the macro of an engine."""

    def __init__(self, macros: dict[str, Callable[..., Any]], engine: str) -> None:
        self._macros, self._engine = macros, engine

    def dispatch(self, name: str, package: str) -> Callable[..., Any]:
        assert package == "gpu_ledger"
        return self._macros[f"{self._engine}__{name}"]


def macros_of(name: str) -> dict[str, str]:
    """The macros of one file, by name."""
    text = (dbt_project_dir() / "macros" / name).read_text(encoding="utf-8")
    return {found.group(1): found.group(0) for found in MACRO.finditer(text)}


def every_macro() -> dict[str, str]:
    """All macros of the models, by name."""
    files = sorted((dbt_project_dir() / "macros").glob("*.sql"))
    return {k: v for f in files if f.name not in OF_DUCKDB for k, v in macros_of(f.name).items()}


@cache
def _environment(engine: str) -> Environment:
    environment = Environment(extensions=["jinja2.ext.do"], undefined=StrictUndefined)
    macros = {name: _callable(environment, name, text) for name, text in every_macro().items()}
    environment.globals.update(
        macros,
        adapter=_Adapter(macros, engine),
        config=lambda **_: "",
        ref=lambda name: name,
        source=lambda schema, name: f"{schema}_{name}",
    )
    environment.globals["return"] = _give_back
    return environment


def _give_back(value: Any) -> None:
    raise _Returned(value)


def _callable(environment: Environment, name: str, text: str) -> Callable[..., Any]:
    """Each macro is rendered alone, so that `return` ends that macro and not its caller."""
    template = environment.from_string(text)

    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return getattr(template.make_module(), name)(*arguments, **named)
        except _Returned as returned:
            return returned.value

    return call


def rendered(path: Path, engine: str = "spark") -> str:
    """One template, a model or a test, as SQL of that engine."""
    text = path.read_text(encoding="utf-8")
    return _environment(engine).from_string(text).render()


def models() -> list[Path]:
    return sorted((dbt_project_dir() / "models").rglob("*.sql"))


def referred(path: Path) -> list[str]:
    """The models and seeds that a model reads."""
    return re.findall(r"ref\('(\w+)'\)", path.read_text(encoding="utf-8"))
