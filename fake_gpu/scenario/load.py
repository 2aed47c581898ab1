"""A scenario by a name of the library, or from a YAML file or a trace.

Put here: from an argument to a checked scenario.
Not here: its contents (`spec`), or simulating it (`fleet.build`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from domain.errors import UnknownName
from domain.mig.parted import parse_parted_file
from fake_gpu.scenario.design_config import is_foreign, read_foreign
from fake_gpu.scenario.errors import BadScenario, Problem
from fake_gpu.scenario.identities import identity_problems
from fake_gpu.scenario.named_mig_layouts import LayoutBook, book_of
from fake_gpu.scenario.openb import OPENB, openb_folder, openb_scenario
from fake_gpu.scenario.scalars import parse_time
from fake_gpu.scenario.schema import InvalidScenarioValue, Reader, line_at
from fake_gpu.scenario.spec import Scenario
from fake_gpu.scenario.targets import target_problems, target_warnings
from fake_gpu.scenario.trace import parse_trace, rounding_warnings
from fake_gpu.scenario.trace_scenario import scenario_of_trace, with_trace
from fake_gpu.scenario.utilisation import quoted_loads

LIBRARY = "fake_gpu.scenarios"


@dataclass(frozen=True, slots=True)
class LoadedScenario:
    """A scenario with everything that its files brought along."""

    scenario: Scenario
    source: str  # a path, or the name in the library
    layouts: LayoutBook = field(default_factory=LayoutBook)
    warnings: tuple[str, ...] = ()  # valid input that may be a mistake
    is_timeless: bool = False  # a configuration has a state, and no times


def library() -> list[str]:
    """The names of the scenarios that ship, in order."""
    entries = resources.files(LIBRARY).iterdir()
    return sorted([OPENB, *(e.name.removesuffix(".yaml") for e in entries if _is_yaml(e.name))])


def _is_yaml(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))


def load_scenario(name_or_path: str | Path, *, data: str | Path | None = None) -> LoadedScenario:
    """Read a scenario by name or path; `data` is the folder of a trace that is not shipped."""
    text = str(name_or_path)
    path = Path(text)
    if path.suffix == ".csv" and path.is_file():
        rows = parse_trace(_text_of(path), text)
        scenario = scenario_of_trace(rows, path.stem, text)
        return LoadedScenario(scenario, text, warnings=rounding_warnings(rows, text))
    if _is_yaml(text) and path.is_file():
        return read_scenario(_text_of(path), text, path.parent)
    if text == OPENB:
        return LoadedScenario(openb_scenario(openb_folder(data)), text)
    return read_scenario(library_text(text), text, None)


def _text_of(path: Path) -> str:
    """A file as text, with or without the mark that spreadsheets put at its beginning."""
    written = path.read_bytes()
    try:
        return written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = written.count(b"\n", 0, error.start) + 1
        seen = f"byte {error.start} is no UTF-8"
        raise BadScenario(str(path), [Problem(line, "", seen, "save it as UTF-8 text")]) from None


def library_text(name: str) -> str:
    """A scenario of the library as it is written."""
    if name not in library() or name == OPENB:
        raise UnknownName(
            where=f"scenario {name!r}",
            seen="there is no such file, and the library has: " + ", ".join(library()),
            why="there is nothing to simulate",
            remedy="`gpu-ledger fake list` shows the library; a file needs its full path",
        )
    return resources.files(LIBRARY).joinpath(f"{name}.yaml").read_text("utf-8")


def read_scenario(text: str, source: str, folder: Path | None) -> LoadedScenario:
    """Read a scenario from text; `folder` is where files that it names lie."""
    text = quoted_loads(text)
    if is_foreign(text):
        foreign, warnings = read_foreign(text, source)
        return LoadedScenario(foreign, source, warnings=warnings, is_timeless=True)
    reader = Reader(source)
    node = reader.compose(text)
    if node is None:
        raise BadScenario(source, [Problem(0, "", "the file is empty", "begin with `name:`")])
    entries = reader.entries(node, "") or {}
    if "from" in entries:
        with suppress(InvalidScenarioValue):  # the reader reports it, with the line
            reader.context["start"] = parse_time(str(entries["from"][1].value), None)
    scenario = reader.record(node, Scenario, "")
    reader.finish()
    assert scenario is not None, "a reader without problems has read something"
    for problem in identity_problems(scenario):
        reader.problems.append(replace(problem, line=line_at(node, problem.path)))
    reader.finish()
    return _with_files(scenario, source, folder)


def _with_files(scenario: Scenario, source: str, folder: Path | None) -> LoadedScenario:
    """The files that a scenario names, read too; then all that its faults can be about is known."""
    layouts = LayoutBook()
    warnings: tuple[str, ...] = ()
    if scenario.mig_configs:
        path = _beside(scenario.mig_configs, source, folder, "mig_configs")
        parted = parse_parted_file(path.read_bytes(), str(path))
        layouts = book_of(parted)
        warnings = tuple(f"{path}: {warning}" for warning in parted.warnings)
    if scenario.workload_trace:
        path = _beside(scenario.workload_trace, source, folder, "workload_trace")
        rows = parse_trace(_text_of(path), str(path))
        warnings += rounding_warnings(rows, str(path))
        scenario = with_trace(scenario, rows, str(path))
    if problems := target_problems(scenario):
        raise BadScenario(source, problems)
    return LoadedScenario(scenario, source, layouts, (*warnings, *target_warnings(scenario)))


def _beside(name: str, source: str, folder: Path | None, key: str) -> Path:
    path = (folder or Path()) / name
    if not path.is_file():
        remedy = "its path is relative to the scenario's folder"
        raise BadScenario(source, [Problem(0, key, f"there is no file {str(path)!r}", remedy)])
    return path
