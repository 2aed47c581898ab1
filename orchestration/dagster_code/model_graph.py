"""The dbt project as a graph of models and tests, parsed once and then read from a file.

Put here: the properties of models and tests that assets need, without an import of dbt.
Not here: running them (`warehouse.build`), or the assets (`model_assets`).

Parsing the project takes seconds, and Dagster loads its definitions in every process. So the graph
is kept in the home, in a file named by the hash of the project's files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from warehouse.dbt_run import parse_project
from warehouse.home import Home
from warehouse.project import project_sha256
from warehouse.store import write_whole

FORMAT = 4
"""The format of the kept file; files of another format are parsed again."""


class GraphColumn(msgspec.Struct, frozen=True):
    name: str
    data_type: str
    description: str


class Model(msgspec.Struct, frozen=True):
    """One dbt model: a table or a view that becomes an asset."""

    name: str
    layer: str  # seeds, staging, intermediate, marts
    description: str
    columns: tuple[GraphColumn, ...]
    depends_on: tuple[str, ...]  # names of models
    reads: str  # the dbt source of a staging model: thanos, decisions, …; else empty
    code_version: str


class ModelTest(msgspec.Struct, frozen=True):
    """One dbt data test, and its model."""

    name: str
    model: str
    description: str


class ModelGraph(msgspec.Struct, frozen=True, dict=True):
    """All models and tests of the project."""

    models: tuple[Model, ...]  # each after those that it depends on
    tests: tuple[ModelTest, ...]

    @cached_property
    def columns(self) -> Mapping[str, set[str]]:
        """The names of each model's columns."""
        return {model.name: {column.name for column in model.columns} for model in self.models}


def prepared_graph(home: Home) -> ModelGraph:
    """The graph of the installed project, from its file; parsed if there is none."""
    path = home.build / "dbt" / f"graph-{FORMAT}-{project_sha256()[:16]}.json"
    if path.is_file():
        return msgspec.json.decode(path.read_bytes(), type=ModelGraph)
    for older in path.parent.glob("graph-*.json"):
        older.unlink()
    graph = parse_graph(home.build / "dbt", home.build / "facts.duckdb")
    write_whole(path, msgspec.json.encode(graph))
    return graph


def parse_graph(folder: Path, database: Path) -> ModelGraph:
    """Parse the project: this imports dbt, which takes 2 s."""
    nodes: Mapping[str, Any] = parse_project(folder, database).nodes
    kinds = ("model", "seed")
    models = [_parsed_model(node) for node in nodes.values() if node.resource_type in kinds]
    tests = [_parsed_test(node) for node in nodes.values() if node.resource_type == "test"]
    return ModelGraph(
        _sort_parents_first(models),
        tuple(sorted((t for t in tests if t.model), key=lambda test: test.name)),
    )


def _sort_parents_first(models: Iterable[Model]) -> tuple[Model, ...]:
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
        columns=tuple(
            GraphColumn(column.name, column.data_type or "", column.description)
            for column in node.columns.values()
        ),
        depends_on=tuple(sorted(parts[-1] for parts in kinds if parts[0] in ("model", "seed"))),
        reads=_source_of(node.name) if any(parts[0] == "source" for parts in kinds) else "",
        code_version=node.checksum.checksum[:16],
    )


def _source_of(name: str) -> str:
    """`stg_thanos__series` is staged from thanos: the layer and the source are in the name."""
    return name.removeprefix("stg_").partition("__")[0]


def _parsed_test(node: Any) -> ModelTest:
    attached = getattr(node, "attached_node", None)
    models = [name for name in node.depends_on.nodes if name.startswith(("model.", "seed."))]
    about = str((node.config.meta or {}).get("evaluates") or attached or (models or [""])[0])
    return ModelTest(node.name, about.split(".")[-1], (node.description or "").strip())
