"""The reconciliation rules: every kind of segment has one rule, and every rule is in use.

Put here: agreement between the rules, the models and the catalogue of findings.
Not here: the effect of each rule (the unit tests of `int_allocations_reconciled`), or the page of
the rules (`test_reference_pages`).
"""

from __future__ import annotations

import re

import yaml

from domain.decisions.rows import PolicyName
from quality.finding_catalogue import CATALOGUE
from warehouse.project import dbt_project_dir
from warehouse.reconciliation_rules import reconciliation_rules

MODELS = dbt_project_dir() / "models" / "intermediate"
KINDS = {rule.segment_kind for rule in reconciliation_rules()}


def test_the_models_produce_exactly_the_kinds_that_have_a_rule() -> None:
    names = ("int_allocation_segments", "int_unsampled_segments", "int_allocations_reconciled")
    texts = [(MODELS / f"{name}.sql").read_text(encoding="utf-8") for name in names]
    # A kind is assigned alone, or as one of the values of a case expression.
    alone = re.findall(r"'(\w+)' as (?:segment|short)_kind", "".join(texts))
    chosen_by = r"case\b((?:(?!\bcase\b).)*?)end as (?:segment|short)_kind"
    cases = re.findall(chosen_by, "".join(texts), re.DOTALL)
    chosen = [kind for case in cases for kind in re.findall(r"(?:then|else) '(\w+)'", case)]
    assert {*alone, *chosen} == KINDS


def test_every_kind_has_a_unit_test() -> None:
    expected: dict[str, set[str]] = {}
    for path in MODELS.glob("*.yml"):
        cases = yaml.safe_load(path.read_text(encoding="utf-8")).get("unit_tests") or []
        for case in cases:
            rows = case["expect"]["rows"]
            kinds = {row["segment_kind"] for row in rows if "segment_kind" in row}
            expected.setdefault(case["model"], set()).update(kinds)
    determined = expected["int_allocation_segments"] | expected["int_unsampled_segments"]
    assert determined == KINDS - {"contradicted"}
    assert expected["int_allocations_reconciled"] == KINDS


def test_a_rule_blocks_the_close_exactly_when_its_finding_does() -> None:
    for rule in reconciliation_rules():
        blocks = rule.finding != "" and CATALOGUE[rule.finding].blocks
        assert rule.blocks_close == ("true" if blocks else "false"), rule
        assert bool(rule.finding_text) == bool(rule.finding), rule


def test_a_rule_counts_towards_a_limit_that_is_a_policy() -> None:
    limits = {rule.limit_name for rule in reconciliation_rules()} - {""}
    assert limits == {PolicyName.ONE_SOURCE_LIMIT, PolicyName.UNCERTAINTY_LIMIT}


def test_rules_of_one_reason_have_the_same_consequences() -> None:
    for rule in reconciliation_rules():
        consequences = {
            (
                one.method,
                one.billed,
                one.limit_name,
                one.blocks_close,
                one.finding,
                one.finding_text,
            )
            for one in reconciliation_rules()
            if one.method_reason == rule.method_reason
        }
        assert len(consequences) == 1, rule
