"""Finding and reading a scenario: a name of the library, a YAML file, a trace.

Put here: from what people type to a checked scenario.
Not here: what it says (`spec`), or playing it (`estate.build`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from fake_gpu.scenario.errors import BadScenario, Problem, UnknownScenario
from fake_gpu.scenario.layouts import LayoutBook
from fake_gpu.scenario.scalars import parse_time
from fake_gpu.scenario.schema import Reader, Unreadable
from fake_gpu.scenario.spec import Scenario

LIBRARY = "fake_gpu.scenarios"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A scenario with everything that its files brought along."""

    scenario: Scenario
    source: str  # a path, or the name in the library
    layouts: LayoutBook = field(default_factory=LayoutBook)


def library() -> list[str]:
    """The names of the scenarios that ship, in order."""
    entries = resources.files(LIBRARY).iterdir()
    return sorted(e.name.removesuffix(".yaml") for e in entries if e.name.endswith(".yaml"))


def load_scenario(name_or_path: str | Path) -> Loaded:
    """Read a scenario by name or path."""
    text = str(name_or_path)
    path = Path(text)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return read_scenario(path.read_text("utf-8"), text, path.parent)
    if text in library():
        body = resources.files(LIBRARY).joinpath(f"{text}.yaml").read_text("utf-8")
        return read_scenario(body, text, None)
    raise UnknownScenario(text, library())


def read_scenario(text: str, source: str, folder: Path | None) -> Loaded:
    """Read a scenario from text; `folder` is where files that it names lie."""
    reader = Reader(source)
    node = reader.compose(text)
    if node is None:
        raise BadScenario(source, [Problem(0, "", "the file is empty", "begin with `name:`")])
    entries = reader.entries(node, "") or {}
    if "from" in entries:
        with suppress(Unreadable):  # the reader says so itself, with the line
            reader.context["start"] = parse_time(str(entries["from"][1].value), None)
    scenario = reader.record(node, Scenario, "")
    reader.finish()
    assert scenario is not None, "a reader without problems has read something"
    return Loaded(scenario, source)
