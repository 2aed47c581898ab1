"""The dbt project as a graph of models and tests, parsed once and then read from a file.

Put here: the properties of models and tests that assets need, without an import of dbt.
Not here: running them (`warehouse.build`), or the assets (`model_assets`).

Parsing the project takes seconds, and Dagster loads its definitions in every process. So the graph
is kept in the home, in a file named by the hash of the project's files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from warehouse.dbt_run import parse_project
from warehouse.home import Home
from warehouse.project import project_sha256
from warehouse.store import write_whole

FORMAT = 3
"""The format of the kept file; files of another format are parsed again."""


@dataclass(frozen=True, slots=True)
class GraphColumn:
    name: str
    data_type: str
    description: str


@dataclass(frozen=True, slots=True)
class Model:
    """One dbt model: a table or a view that becomes an asset."""

    name: str
    layer: str  # seeds, staging, intermediate, marts
    description: str
    group: str
    columns: tuple[GraphColumn, ...]
    depends_on: tuple[str, ...]  # names of models
    reads: str  # the dbt source of a staging model: thanos, decisions, …; else empty
    code_version: str


@dataclass(frozen=True, slots=True)
class ModelTest:
    """One dbt data test, and its model."""

    name: str
    model: str
    description: str


@dataclass(frozen=True)
class ModelGraph:
    models: tuple[Model, ...]  # each after those that it depends on
    tests: tuple[ModelTest, ...]

    @cached_property
    def columns(self) -> Mapping[str, set[str]]:
        """The names of each model's columns."""
        return {model.name: {column.name for column in model.columns} for model in self.models}

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ModelGraph:
        value = json.loads(text)
        return cls(
            tuple(_model(entry) for entry in value["models"]),
            tuple(ModelTest(**entry) for entry in value["tests"]),
        )


def prepared_graph(home: Home) -> ModelGraph:
    """The graph of the installed project, from its file; parsed if there is none."""
    path = home.build / "dbt" / f"graph-{FORMAT}-{project_sha256()[:16]}.json"
    if path.is_file():
        return ModelGraph.from_json(path.read_text(encoding="utf-8"))
    for older in path.parent.glob("graph-*.json"):
        older.unlink()
    graph = parse_graph(home.build / "dbt", home.build / "facts.duckdb")
    write_whole(path, graph.to_json().encode())
    return graph


def parse_graph(folder: Path, database: Path) -> ModelGraph:
    """Parse the project."""
    # This imports dbt, which takes 2 s; most processes of Dagster read the kept file instead.

    nodes: Mapping[str, Any] = parse_project(folder, database).nodes
    kinds = ("model", "seed")
    models = [_parsed_model(node) for node in nodes.values() if node.resource_type in kinds]
    tests = [_parsed_test(node) for node in nodes.values() if node.resource_type == "test"]
    return ModelGraph(
        _parents_first(models),
        tuple(sorted((t for t in tests if t.model), key=lambda test: test.name)),
    )


def _parents_first(models: Iterable[Model]) -> tuple[Model, ...]:
    """The models in the order of a build; by name where the order is free."""
    left = {model.name: model for model in models}
    order: list[Model] = []
    while left:
        free = sorted(n for n, model in left.items() if not left.keys() & {*model.depends_on})
        order += [left.pop(name) for name in free]
    return tuple(order)


def _parsed_model(node: Any) -> Model:
    kinds = [name.split(".") for name in getattr(node.depends_on, "nodes", ())]
    return Model(
        name=node.name,
        layer="seeds" if node.resource_type == "seed" else node.fqn[1],
        description=node.description.strip(),
        group=getattr(node, "group", None) or "",
        columns=tuple(
            GraphColumn(column.name, column.data_type or "", column.description)
            for column in node.columns.values()
        ),
        depends_on=tuple(sorted(parts[-1] for parts in kinds if parts[0] in ("model", "seed"))),
        reads=_staged_from(node.name) if any(parts[0] == "source" for parts in kinds) else "",
        code_version=node.checksum.checksum[:16],
    )


def _staged_from(name: str) -> str:
    """`stg_thanos__series` is staged from thanos: the layer and the source are in the name."""
    return name.removeprefix("stg_").partition("__")[0]


def _parsed_test(node: Any) -> ModelTest:
    attached = getattr(node, "attached_node", None)
    models = [name for name in node.depends_on.nodes if name.startswith(("model.", "seed."))]
    about = str((node.config.meta or {}).get("evaluates") or attached or (models or [""])[0])
    return ModelTest(node.name, about.split(".")[-1], (node.description or "").strip())


def _model(entry: dict[str, Any]) -> Model:
    columns = tuple(GraphColumn(**column) for column in entry["columns"])
    return Model(**{**entry, "columns": columns, "depends_on": tuple(entry["depends_on"])})
