"""Reference pages that are generated from the code and data that they describe.

Put here: queries, findings, reconciliation rules, and that their pages are up to date.
Not here: errors (`architecture/test_pages`), the command line (`test_cli_reference`), tables
(`test_model_descriptions`), decisions (`test_decisions_sealing`), scenario files
(`test_fake_scenario`), settings (`architecture/test_pages_of_ingestion`).

To rewrite the pages after an intended change, run GPU_LEDGER_WRITE_GOLDEN=1 pytest on this file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, fields

import pytest

from quality.finding_catalogue import CATALOGUE
from tests.unit.test_model_descriptions import declared
from tests.written_pages import TOCTREE, first_sentence, written
from warehouse.reconciliation_rules import ReconciliationRule, reconciliation_rules
from warehouse.reports.named_queries import questions


def queries_page() -> str:
    parts = [
        "# Named queries\n",
        "`gpu-ledger query NAME` runs one of these queries on the published copy, or on the"
        " warehouse. `--show` prints\nits SQL, for a query of your own. The tests compare the"
        " result of each query with a known result.\n",
    ]
    for one in questions():
        parts += [f"## {one.name}\n", f"{one.title} {one.meaning}".strip() + "\n"]
        given = [f"`{name}` (default: {value})" for name, value in one.parameters.items()]
        parts += [f"Parameters: {', '.join(given)}.\n"] if given else []
        parts += [f"No row means: {one.when_empty}\n"] if one.when_empty else []
        parts += [f"```sql\n{one.sql.strip()}\n```\n"]
    return "\n".join(parts)


def findings_page() -> str:
    rows = [
        f"| [{kind.code}]({kind.code}.md) | `{kind.name}` | {'yes' if kind.blocks else 'no'} "
        f"| {kind.remedy.value} | {first_sentence(kind.means)} |"
        for kind in sorted(CATALOGUE.values(), key=lambda kind: kind.code)
    ]
    return "\n".join(
        [
            "# Findings\n",
            "A finding is a problem of a period's facts or evidence. Its page has its meaning, its"
            " effect on bills, and its\nremedy. This list is generated from"
            " `quality/finding_catalogue.py`.\n",
            "| code | name | blocks a close | remedy | meaning |",
            "|---|---|---|---|---|",
            *rows,
            TOCTREE,
        ]
    )


def rules_page() -> str:
    names = [field.name for field in fields(ReconciliationRule)]
    described = {
        column["name"]: column["description"]
        for seed in declared("seeds")
        if seed["name"] == "reconciliation_rules"
        for column in seed["columns"]
    }
    return "\n".join(
        [
            "# Reconciliation rules\n",
            "Samples and lifecycle are collected separately. The model `int_allocation_segments`"
            " cuts each allocation\ninto segments and determines the kind of each. The model"
            " `int_allocations_reconciled` joins this\ntable for the method and the billed time,"
            " and assigns the kind `contradicted`; `quality/reconciliation.py`\nraises the finding."
            " `blocks_close` decides whether the segment blocks the close; an accepted gap with\na"
            " treatment overrides a blocking rule. `gpu-ledger explain` prints the rules behind an"
            " invoice line.\n",
            f"| {' | '.join(names)} |",
            f"|{'---|' * len(names)}",
            *(f"| {' | '.join(astuple(rule))} |" for rule in reconciliation_rules()),
            "\n| column | meaning |",
            "|---|---|",
            *(f"| `{name}` | {' '.join(described[name].split())} |" for name in names),
            "",
        ]
    )


PAGES: dict[str, Callable[[], str]] = {
    "reference/queries.md": queries_page,
    "findings/index.md": findings_page,
    "reference/reconciliation-rules.md": rules_page,
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_equals_its_generated_content(name: str) -> None:
    page = PAGES[name]()
    assert page == written(name, page)


def test_at_least_twenty_queries_are_documented() -> None:
    assert len(questions()) >= 20
