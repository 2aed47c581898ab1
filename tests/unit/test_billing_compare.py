"""What other tools would have billed: each rule by pencil, and a month by all of them."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from billing.compare import RULES, PodLife, compare
from billing.compare_reader import compare_period
from domain.interval import Interval
from tests.marts_by_hand import Pod, World, at

EUR = 1_000_000_000


def stretch(first: str, last: str) -> Interval:
    return Interval(at(first), at(last))


def life(*sampled: Interval, billed: int = 0, **changes: object) -> PodLife:
    values: dict[str, object] = {
        "tenant": "a",
        "pod_uid": "u",
        "device_count": 1,
        "weight": Fraction(1),
        "rate_nanos_per_hour": 4 * EUR,
        "billed_seconds": billed or sum(one.seconds for one in sampled),
        "sampled": sampled,
        **changes,
    }
    return PodLife(**values)  # type: ignore[arg-type]


def billed_by(rule: str, *lives: PodLife) -> int:
    [found] = [one for one in compare(lives, {}) if one.rule == rule]
    return found.rule_nanos


@pytest.mark.parametrize(
    ("first", "last", "hours"),
    [
        ("09 10:01", "09 10:14", 0),  # between two steps: free
        ("09 10:14", "09 10:16", 1),  # one step, a whole hour
        ("09 10:00", "09 11:00", 1),  # four steps
        ("09 10:00", "09 11:01", 2),  # a fifth step, two hours
    ],
)
def test_steps_are_rounded_up_to_whole_hours(first: str, last: str, hours: int) -> None:
    assert billed_by("whole_hours_of_steps", life(stretch(first, last))) == hours * 4 * EUR


def test_a_gap_is_a_stop_and_rounds_up_twice() -> None:
    parts = (stretch("09 10:00", "09 10:20"), stretch("09 10:40", "09 11:00"))
    assert billed_by("whole_hours_of_steps", life(*parts)) == 2 * 4 * EUR


def test_first_to_last_bills_the_hole_between_them() -> None:
    parts = (stretch("09 10:00", "09 10:30"), stretch("09 20:00", "09 20:30"))
    assert billed_by("first_to_last", life(*parts)) == 42 * EUR


def test_an_idle_pod_is_free_by_engine_time() -> None:
    hour = stretch("09 10:00", "09 11:00")
    assert billed_by("engine_active_time", life(hour, engine_active=Fraction(1, 4))) == EUR
    assert billed_by("engine_active_time", life(hour)) == 0


def test_a_slice_is_billed_as_a_whole_card() -> None:
    slice_ = life(stretch("09 10:00", "09 11:00"), weight=Fraction(3, 7), device_count=2)
    assert billed_by("whole_card_for_a_slice", slice_) == 8 * EUR


def test_a_month_is_compared_tenant_by_tenant(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.pods = [
        # 0.5 h of a card, and 1 h of 3/7 of one, of which the last half was in a hole.
        Pod("team-a", "short", at("09 10:05"), at("09 10:35")),
        Pod("team-b", "slice", at("09 10:00"), at("09 10:30"), weight=Fraction(3, 7)),
        Pod("team-b", "slice", at("09 10:30"), at("09 11:00"), weight=Fraction(3, 7),
            method="lifecycle_only", method_reason="hole"),
    ]  # fmt: skip
    home = world.write()
    found = {(d.tenant, d.rule): d for d in compare_period(home, world.period)}
    assert {d.ledger_nanos for d in found.values() if d.tenant == "team-a"} == {1_800_000_000}
    assert found["team-a", "whole_hours_of_steps"].rule_nanos == 3_600_000_000
    assert found["team-a", "first_to_last"].nanos == 0
    assert found["team-a", "engine_active_time"].rule_nanos == 450_000_000
    # The hole is lost to the samples: half an hour of 3/7 at 3.60.
    assert found["team-b", "first_to_last"].rule_nanos == 771_428_571
    assert found["team-b", "whole_card_for_a_slice"].rule_nanos == 3_600_000_000
    assert found["team-b", "whole_card_for_a_slice"].nanos == 3_600_000_000 - 1_542_857_143


def test_each_rule_says_what_it_counts_as() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.says.endswith(".")
        assert rule.title


PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "other-tools.md"


def page() -> str:
    """The page, with the figures of the rules as they are now."""
    example = (
        life(stretch("09 10:05", "09 10:35")),
        life(stretch("09 10:00", "09 10:30"), stretch("09 20:00", "09 20:30"), billed=37_800),
        life(stretch("09 10:00", "09 11:00"), weight=Fraction(3, 7)),
    )
    lives = [replace(one, engine_active=Fraction(1, 4)) for one in example]
    billed = 2 * EUR + 42 * EUR + round(Fraction(3, 7) * 4 * EUR)
    rules = "\n".join(f"- **{rule.title}.** {rule.says}" for rule in RULES)
    rows = "\n".join(
        f"| {rule.title} | {found.rule_nanos / EUR:.2f} | {found.nanos / EUR:+.2f} |"
        for rule, found in zip(RULES, compare(lives, {"a": billed}), strict=True)
    )
    return f"""# The same month under the rules of other tools

Most tools look at samples alone. What they make of them differs, and so do the bills.
`gpu-ledger compare P` puts the same facts under each of these rules, tenant by tenant:

{rules}

The ledger bills what both witnesses know: whole seconds between the first container's start and the
last one's end, by the exact share of the card.

## An example that a pencil can follow

Three pods at 4.00 an hour: half an hour of a card from 10:05; a card from 10:00 to 20:30 of which
samples show only the first and the last half hour; an hour of 3/7 of a card. Their engines were
busy for a quarter of the time. The ledger bills 2.00 + 42.00 + 1.71 = 45.71.

| rule | bills | difference |
|---|---|---|
{rows}
"""


def test_the_page_shows_what_the_rules_give() -> None:
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
