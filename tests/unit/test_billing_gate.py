"""The commands that a refused close suggests fit its blocking findings."""

from __future__ import annotations

import pytest

from billing.gate import UNMEASURED_GAP, PeriodNotBillable, next_commands
from domain.billing_period import BillingPeriod
from domain.findings import CheckResult, Finding
from quality.finding_catalogue import CATALOGUE

OCTOBER = BillingPeriod("2026-10")
GAPS, CHECK, REFRESH = (
    "gpu-ledger gaps 2026-10",
    "gpu-ledger check 2026-10",
    "gpu-ledger refresh --period 2026-10",
)


def finding(name: str) -> Finding:
    return CATALOGUE[name].finding(where="somewhere", seen="something")


@pytest.mark.parametrize(
    ("names", "missing", "commands"),
    [
        (["hour_not_measured"], [], [GAPS]),
        (["usage_without_price"], [], [CHECK]),
        (["one_source_limit_exceeded"], [], [GAPS, CHECK]),
        (["usage_without_price", "hour_not_measured", "hour_not_measured"], [], [GAPS, CHECK]),
        ([], ["conservation"], [REFRESH]),
        (["sources_disagree"], ["conservation"], [CHECK, REFRESH]),
    ],
)
def test_each_suggested_command_fits_the_findings(
    names: list[str], missing: list[str], commands: list[str]
) -> None:
    found = [finding(name) for name in names]
    assert [command for command, _ in next_commands(OCTOBER, found, missing)] == commands
    check_result = CheckResult(OCTOBER, "0" * 64, tuple(found), missing_checks=tuple(missing))
    remedy = PeriodNotBillable(check_result, "EUR").remedy
    assert [command for command in (GAPS, CHECK, REFRESH) if f"`{command}`" in remedy] == commands


def test_a_finding_that_is_not_a_gap_is_named_by_its_code() -> None:
    found = [finding("usage_without_price"), finding("device_unknown")]
    [(_, told)] = next_commands(OCTOBER, found, [])
    assert told == "lists the remedy of DEV-001, PRICE-001"


def test_gap_commands_are_for_findings_that_block() -> None:
    assert CATALOGUE["hour_not_measured"].code == UNMEASURED_GAP
    of_gaps = {kind.code for kind in CATALOGUE.values() if kind.blocks and "GAP" in kind.code}
    assert of_gaps == {
        UNMEASURED_GAP,
        "GAP-005",
        "GAP-006",
    }  # gaps are the reason that a limit is exceeded
