"""Every model, column and source has a description, and the reference page is generated
from them.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from orchestration.cli.doctor import SOURCES
from tests.tables_page import tables_page
from warehouse.project import dbt_project_dir, read_yaml
from warehouse.raw_schema import RAW_TABLES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tables.md"
LINEAGE = PAGE.with_name("lineage.md")


@cache
def declared_files() -> list[dict[str, Any]]:
    paths = sorted(dbt_project_dir().rglob("*.yml"))
    return [read_yaml(path) for path in paths]


def declared(key: str) -> list[dict[str, Any]]:
    """Every declaration of this kind in the files of the dbt project."""
    rows = [one for file in declared_files() for one in file.get(key) or []]
    return [one for one in rows if isinstance(one, dict)]


def test_the_page_equals_the_descriptions() -> None:
    """To rewrite the page after an intended change, run GPU_LEDGER_WRITE_GOLDEN=1 pytest on this
    file.
    """
    page = tables_page()
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        PAGE.write_text(page, encoding="utf-8")
    assert page == PAGE.read_text(encoding="utf-8")


def test_every_model_file_is_described_and_every_description_has_a_file() -> None:
    models = {path.stem for path in (dbt_project_dir() / "models").rglob("*.sql")}
    seeds = {path.stem for path in (dbt_project_dir() / "seeds").glob("*.csv")}
    described = {one["name"] for one in declared("models") if one.get("description")}
    assert described == models
    assert {one["name"] for one in declared("seeds") if one.get("description")} == seeds


def test_every_column_is_described_and_every_model_states_its_grain() -> None:
    for model in declared("models"):
        assert model["description"].startswith("One row per"), model["name"]
        assert all(c.get("description") for c in model["columns"]), model["name"]


def test_every_source_is_described_and_states_its_freshness() -> None:
    [raw] = declared("sources")
    tables = {table["name"]: table for table in raw["tables"]}
    assert [name for name, table in tables.items() if not table.get("description")] == []
    fresh = {name for name, table in tables.items() if "freshness" in table.get("config", {})}
    assert fresh == {*SOURCES.values()}


def test_columns_with_equal_descriptions_share_a_doc_block() -> None:
    [raw] = declared("sources")
    columns = [
        " ".join(column["description"].split())
        for one in [*declared("models"), *declared("seeds"), *raw["tables"]]
        for column in one.get("columns", [])
    ]
    blocks = (dbt_project_dir() / "models" / "columns.md").read_text(encoding="utf-8")
    uses = Counter(columns)
    assert [text for text, count in uses.items() if count > 1 and "doc(" not in text] == []
    assert [
        name for name in re.findall(r"docs (\w+)", blocks) if uses[f"{{{{ doc('{name}') }}}}"] < 2
    ] == []


def test_every_source_column_at_the_end_of_lineage_is_described() -> None:
    [raw] = declared("sources")
    described = {
        table["name"]: [c["name"] for c in table["columns"] if c.get("description")]
        for table in raw["tables"]
    }
    missing = {
        f"{name}.{column}"
        for name, columns in RAW_TABLES.items()
        for column in columns
        if column not in described.get(name, [])
    }
    ends = re.findall(r"^- `raw\.(\w+)\.(\w+)`$", LINEAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert ends
    missing |= {f"{name}.{column}" for name, column in ends if column not in described[name]}
    assert missing == set()


def test_no_model_is_incremental() -> None:
    """Each is rebuilt whole, so late or withdrawn rows need no special case."""
    paths = [*(dbt_project_dir() / "models").rglob("*"), dbt_project_dir() / "dbt_project.yml"]
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths if path.is_file()}
    assert len(texts) > 100
    adding = re.compile(r"is_incremental|incremental|microbatch|\{\{\s*this\s*\}\}")
    assert {name: found for name, text in texts.items() if (found := adding.findall(text))} == {}


def test_every_mart_and_every_exposure_has_an_owner() -> None:
    owners = {group["name"]: group["owner"]["name"] for group in declared("groups")}
    marts = [one for one in declared("models") if one["name"][:4] in ("dim_", "fct_", "rpt_")]
    assert {owners[mart["config"]["group"]] for mart in marts} == set(owners.values())
    exposures = declared("exposures")
    assert {one["owner"]["name"] for one in exposures} <= set(owners.values())
    assert {one["name"] for one in exposures} >= {"invoices", "usage_reports", "named_questions"}


def test_the_exposure_of_queries_names_every_table_that_they_read() -> None:
    folder = Path(__file__).parents[2] / "docs" / "reference" / "queries"
    text = " ".join(path.read_text(encoding="utf-8") for path in folder.glob("*.sql"))
    marts = {one["name"] for one in declared("models")}
    [exposure] = [one for one in declared("exposures") if one["name"] == "named_questions"]
    named = {reference[5:-2] for reference in exposure["depends_on"]}
    asked = {mart for mart in marts if f" {mart}\n" in text or f" {mart} " in text}
    # Names of clusters and hours are only looked up.
    assert asked - named <= {"dim_clusters", "fct_coverage"}
    assert named <= asked


def test_every_exposure_links_to_a_page_of_the_documentation() -> None:
    for exposure in declared("exposures"):
        page = re.sub(r"^https://gpu-ledger\.io/docs/(.+)\.html$", r"\1.md", exposure["url"])
        assert (PAGE.parents[1] / page).is_file(), exposure["name"]


@pytest.mark.parametrize(
    ("exposure", "files"),
    [
        ("check", "quality/**/*.sql"),
        ("portal", "warehouse/snapshots.py"),
        ("portal", "portal/*.py"),
        ("invoices", "billing/sql/*.sql"),
        ("other_tools", "billing/sql/other_tools/*.sql"),
    ],
)
def test_an_exposure_names_every_mart_that_its_files_read(exposure: str, files: str) -> None:
    paths = [*PAGE.parents[2].glob(files)]
    words = {
        word for path in paths for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }
    marts = {path.stem for path in (dbt_project_dir() / "models" / "marts").glob("*.sql")}
    [declared_one] = [one for one in declared("exposures") if one["name"] == exposure]
    assert words & marts
    assert words & marts <= {reference[5:-2] for reference in declared_one["depends_on"]}


def test_every_data_test_names_its_invariant_and_is_on_the_page() -> None:
    page = (PAGE.parents[1] / "explanation" / "invariants.md").read_text(encoding="utf-8")
    described = {one["name"]: one["description"] for one in declared("data_tests")}
    sentences = {path.stem for path in (dbt_project_dir() / "data_tests").glob("*.sql")}
    assert set(described) == sentences
    for name, text in described.items():
        number, title = re.findall(r"^Invariant (\d+), ([^:]+):", text)[0]
        [row] = [line for line in page.splitlines() if re.match(rf"\| (\d+, )?{number} \|", line)]
        assert (title in row, name in row) == (True, True), name
    for path in re.findall(r"`(tests/[^`]+)`", page):
        assert (PAGE.parents[2] / path).is_file(), path
