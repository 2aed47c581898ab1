"""Imports between packages go in one direction, like the data."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "domain",
    "clients",
    "warehouse",
    "ingestion",
    "quality",
    "billing",
    "idle_pruner",
    "fake_gpu",
    "amd_exporter",
    "portal",
    "orchestration",
)
ALLOWED: dict[str, frozenset[str]] = {
    "domain": frozenset(),
    "clients": frozenset({"domain"}),
    "warehouse": frozenset({"domain"}),
    "ingestion": frozenset({"domain", "clients", "warehouse"}),
    "quality": frozenset({"domain", "warehouse"}),
    "billing": frozenset({"domain", "warehouse"}),
    "idle_pruner": frozenset({"domain", "clients"}),
    "fake_gpu": frozenset({"domain"}),
    "fake_gpu.cluster": frozenset({"domain", "clients", "fake_gpu"}),
    "fake_gpu.truth": frozenset(),
    "amd_exporter": frozenset(),
    "portal": frozenset({"domain", "clients", "warehouse", "billing"}),
    "orchestration": frozenset(PACKAGES) - {"orchestration", "amd_exporter"},
}


# GPU classes do not depend on decisions, and renderers do not depend on the record. Both sources
# use the same evidence store and do not depend on each other. All user interfaces use the same
# steps; of them, only the command line uses the others.
NOT_IMPORTED_BY: dict[str, tuple[str, ...]] = {
    "domain.mig": ("domain.gpu", "domain.decisions"),
    "domain.gpu": ("domain.decisions",),
    "billing.rendering": ("billing.record", "billing.books", "billing.billed_facts"),
    "ingestion.evidence": ("ingestion.thanos", "ingestion.kubernetes", "ingestion.rebuild"),
    "ingestion.thanos": ("ingestion.kubernetes", "ingestion.rebuild"),
    "ingestion.kubernetes": ("ingestion.thanos", "ingestion.rebuild"),
    "orchestration": ("orchestration.cli", "orchestration.dagster_code", "orchestration.demo"),
    "orchestration.dagster_code": ("orchestration.cli", "orchestration.demo"),
    "orchestration.demo": ("orchestration.cli", "orchestration.dagster_code"),
}


def imported_names(path: Path) -> list[tuple[int, str]]:
    """Every absolute module name in the imports of a file, also inside functions."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import"
            found.append((node.lineno, node.module or ""))
    return found


def backward_arrows(package: str, path: Path) -> list[str]:
    """The forbidden imports of a file."""
    own = package.split(".")[0]
    bad = []
    for line, module in imported_names(path):
        top = module.split(".")[0]
        if top not in PACKAGES:
            continue
        inside = module == package or module.startswith(package + ".")
        if package == "fake_gpu" and module.startswith("fake_gpu"):
            inside = True
        if not inside and top not in ALLOWED[package] and (top != own or "." in package):
            bad.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    return bad


def files_of(package: str) -> list[Path]:
    """The files of a package, without those of a sub-package that has its own rules."""
    folder = ROOT.joinpath(*package.split("."))
    parts = [ROOT.joinpath(*p.split(".")) for p in ALLOWED if p.startswith(package + ".")]
    if package == "orchestration":
        parts += [folder / name for name in ("cli", "dagster_code", "demo")]
    return sorted(
        path for path in folder.rglob("*.py") if not any(path.is_relative_to(p) for p in parts)
    )


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_go_one_way(package: str) -> None:
    files = files_of(package)
    assert files, f"{package} has no modules"
    assert [arrow for path in files for arrow in backward_arrows(package, path)] == []


@pytest.mark.parametrize("package", sorted(NOT_IMPORTED_BY))
def test_imports_of_a_sub_package_go_one_way(package: str) -> None:
    """Imports under TYPE_CHECKING and inside functions included."""
    files = files_of(package)
    assert files, f"{package} has no modules"
    backward = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in files
        for line, module in imported_names(path)
        if f"{module}.".startswith(tuple(f"{name}." for name in NOT_IMPORTED_BY[package]))
    ]
    assert backward == []


def test_a_forbidden_import_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function of the test above reports a file that breaks the rule."""
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    offender = tmp_path / "offender.py"
    offender.write_text("def late():\n    from quality import run\n")
    assert backward_arrows("billing", offender) == ["offender.py:2 imports quality"]
    assert backward_arrows("orchestration", offender) == []
    offender.write_text("import domain.money\n")
    assert backward_arrows("fake_gpu.truth", offender) == ["offender.py:1 imports domain.money"]
    assert backward_arrows("fake_gpu", offender) == []


def test_every_library_that_is_imported_is_a_declared_dependency() -> None:
    """amdsmi is part of AMD's driver, _typeshed of the type checker."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [text for extra in project["optional-dependencies"].values() for text in extra]
    declared = {re.split("[<>=]", text)[0] for text in [*project["dependencies"], *extras]}
    renamed = {"google": "protobuf", "grpc": "grpcio", "yaml": "pyyaml", "dbt": "dbt-core"}
    undeclared = {
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for package in PACKAGES
        for path in files_of(package)
        for line, module in imported_names(path)
        if (top := module.split(".")[0]) not in sys.stdlib_module_names
        and top not in {*PACKAGES, "amdsmi", "_typeshed"}
        and renamed.get(top, top.replace("_", "-")) not in declared
    }
    assert undeclared == set()


def test_only_the_warehouse_opens_duckdb() -> None:
    """Other packages may name its types and receive open connections."""
    offenders = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in PACKAGES
        if package != "warehouse"
        for path in files_of(package)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr == "connect"
        and isinstance(node.value, ast.Name)
        and node.value.id == "duckdb"
    ]
    assert offenders == []


@pytest.mark.parametrize(
    ("command", "group"), [("collect", "collector"), ("prune", "idle-pruner"), ("portal", "portal")]
)
def test_a_component_imports_only_the_libraries_of_its_image(command: str, group: str) -> None:
    import subprocess

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    renamed = {"pyyaml": "yaml", "grpcio": "grpc", "protobuf": "google.protobuf"}
    installed = set(project["dependency-groups"][group])
    others = {re.split("[<>=]", text)[0] for text in project["project"]["dependencies"]} - installed
    modules = sorted(renamed.get(name, name.replace("-", "_")) for name in others)
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({modules!r}))\n"  # as if not installed
        f"import orchestration.cli.{command}"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_heavy_libraries_are_not_imported_at_the_top_of_the_command_line() -> None:
    """`gpu-ledger --help` takes less than 100 ms because it imports no library except click."""
    import subprocess

    heavy = "dagster duckdb polars pyarrow dbt great_expectations httpx rich typst uvicorn yaml"
    code = (
        "import sys; from orchestration.cli.main import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        f"print([m for m in {heavy.split()!r} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"
