"""Bills by the rules of other tools, compared with the numbers that each tool publishes."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from billing.compare import RULES, PricedPodUse, SampledUse, compare, compare_period
from domain.interval import Interval
from tests.marts_by_hand import SIGNED, Pod, World, at

EUR = 1_000_000_000
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
ALWAYS = Interval(datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC))


def run(first: str, last: str) -> SampledUse:
    return SampledUse(at(first), at(last))


def life(*sampled: SampledUse, **changes: object) -> PricedPodUse:
    values: dict[str, object] = {
        "tenant": "a",
        "cluster_id": "c1",
        "pod_uid": "u",
        "gpu_class": "A100-40",
        "is_slice": False,
        "device_count": 1,
        "weight": Fraction(1),
        "compute_share": Fraction(1),
        "rate_nanos_per_hour": 4 * EUR,
        "window": ALWAYS,
        "sampled": sampled,
        **changes,
    }
    return PricedPodUse(**values)  # type: ignore[arg-type]


def billed_by(rule: str, *lives: PricedPodUse) -> int:
    [found] = [one for one in compare(lives, {}) if one.rule == rule]
    return found.rule_nanos


# From test_utils.py of CCI-MOC/openshift-usage-scripts, with the rates of that file.
MOC_A100, MOC_A100_SXM4 = 1_803_000_000, 2_078_000_000


def test_moc_rounds_48_hours_up_to_its_published_cost() -> None:
    """`48, OpenShift GPUA100, 1.803, 86.54` for slightly under 48 hours; `…SXM4, 2.078, 99.74`."""
    almost = run("01 00:00", "02 23:30")  # 191 steps, 47.75 hours
    assert billed_by("moc", life(almost, rate_nanos_per_hour=MOC_A100)) == 86_540_000_000
    whole = run("01 00:00", "02 23:45")  # 192 steps
    assert billed_by("moc", life(whole, rate_nanos_per_hour=MOC_A100_SXM4)) == 99_740_000_000


def test_moc_subtracts_outages_as_in_its_published_example() -> None:
    """48 hours from 2024-04-10T11:00Z with two outages: `37, OpenShift GPUA100SXM4, …, 76.89`."""
    start = datetime(2024, 4, 10, 11, tzinfo=UTC)
    sampled = SampledUse(start, start + 48 * HOUR - 15 * MINUTE)
    outages = (
        Interval(start - 24 * HOUR, start + 4 * HOUR),
        Interval(start + 11 * HOUR, start + 18 * HOUR),
    )
    pod = life(sampled, rate_nanos_per_hour=MOC_A100_SXM4, outages=outages)
    assert billed_by("moc", pod) == 76_890_000_000


def test_moc_rounds_the_sum_of_a_project_and_class_not_each_pod() -> None:
    """100 pods of one step each are 25 hours, not 100; a step between two pods is free."""
    step = run("09 10:14", "09 10:16")
    assert billed_by("moc", *[life(step)] * 100) == 25 * 4 * EUR
    assert billed_by("moc", life(run("09 10:01", "09 10:14"))) == 0
    # Each class is rounded separately.
    assert billed_by("moc", life(step), life(step, gpu_class="H100")) == 2 * 4 * EUR


def test_moc_has_no_price_for_a_slice() -> None:
    assert billed_by("moc", life(run("09 10:00", "09 12:00"), is_slice=True)) == 0


@pytest.mark.parametrize(
    ("minutes", "billed"),
    [((0, 15, 30, 45), 45), ((15, 16, 17, 18, 19, 20), 5), ((15,), 1)],
)
def test_opencost_bills_its_published_starts_and_ends(
    minutes: tuple[int, ...], billed: int
) -> None:
    """The samples of TestCalculateStartAndEnd, and the minutes that it expects."""
    start = at("09 10:00")
    runs = [SampledUse(start + m * MINUTE, start + m * MINUTE) for m in minutes]
    assert billed_by("opencost", life(*runs, rate_nanos_per_hour=60 * EUR)) == billed * EUR


@pytest.mark.parametrize(
    ("hours", "slices", "weighted", "as_a_card"),
    [(2, 4, 3.43, 6), (6, 1, 2.57, 18), (2, 2, 1.71, 6)],
)
def test_koku_bills_its_published_example(
    hours: int, slices: int, weighted: float, as_a_card: int
) -> None:
    """An A100 at 3 dollars an hour; the page rounds 12/7, the last amount, to 1.72."""
    start = at("09 10:00")
    pod = life(
        SampledUse(start, start + hours * HOUR),
        is_slice=True,
        compute_share=Fraction(slices, 7),
        rate_nanos_per_hour=3 * EUR,
    )
    assert round(billed_by("koku", pod) / EUR, 2) == weighted
    assert billed_by("koku_without_slices", pod) == as_a_card * EUR


def test_a_month_is_compared_tenant_by_tenant(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.outages = [f",2026-10-09T10:15:00Z,2026-10-09T10:20:00Z,credit,{SIGNED}"]
    world.pods = [
        # 0.5 h of a card, 5 minutes of it in an outage; 1 h of 3/7 of a card, half of it unsampled.
        Pod("team-a", "short", at("09 10:05"), at("09 10:35")),
        Pod("team-b", "slice", at("09 10:00"), at("09 10:30"), weight=Fraction(3, 7)),
        Pod("team-b", "slice", at("09 10:30"), at("09 11:00"), weight=Fraction(3, 7),
            method="lifecycle_only", method_reason="sample_gap"),
    ]  # fmt: skip
    home = world.write()
    found = {(d.tenant, d.rule): d for d in compare_period(home, world.period)}
    # 0.5 h at 3.60 minus 5 minutes: the amount of the invoice.
    assert {d.ledger_nanos for d in found.values() if d.tenant == "team-a"} == {1_500_000_000}
    # Steps 10:15 and 10:30, minus 5 minutes of outage: an hour.
    assert found["team-a", "moc"].rule_nanos == 3_600_000_000
    assert found["team-a", "opencost"].rule_nanos == 1_800_000_000
    # Half an hour of 3/7 at 3.60, exact to a nano; five minutes of the whole hour were an outage.
    assert found["team-b", "opencost"].rule_nanos == 771_428_571
    assert abs(found["team-b", "opencost"].ledger_nanos - 1_414_285_714) <= 1


def test_samples_are_split_at_a_price_change(tmp_path: Path) -> None:
    """Two hours at 3.60, then one at 7.20, with samples without a pause."""
    rates = [
        f",A100-40,whole,EUR,3.6,2026-01-01,2026-10-09T12:00:00Z,{SIGNED},",
        f",A100-40,whole,EUR,7.2,2026-10-09T12:00:00Z,,{SIGNED},",
    ]
    pod = Pod("team-a", "long", at("09 10:00"), at("09 13:00"))
    home = World(tmp_path / "home", rates=rates, pods=[pod]).write()
    found = {d.rule: d.rule_nanos for d in compare_period(home, World(tmp_path).period)}
    # MOC counts the pod at 13:00, too: one more hour at the second price.
    assert found == {
        "moc": 7_200_000_000 + 14_400_000_000,
        "opencost": 14_400_000_000,
        "koku": 14_400_000_000,
        "koku_without_slices": 14_400_000_000,
    }


def test_each_rule_describes_its_counting() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.says.endswith(".")
        assert rule.title


PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "other-tools.md"


def page() -> str:
    """The page, with the current figures of the rules."""
    lives = (
        life(run("09 10:05", "09 10:35")),
        life(run("09 10:00", "09 10:30"), run("09 20:00", "09 20:30")),
        life(
            run("09 10:00", "09 11:00"),
            gpu_class="A100-40 slice",
            is_slice=True,
            weight=Fraction(1, 2),
            compute_share=Fraction(3, 7),
        ),
    )
    billed = 2 * EUR + 42 * EUR + 2 * EUR
    rules = "\n".join(f"- **{rule.title}.** {rule.says}" for rule in RULES)
    rows = "\n".join(
        f"| {rule.title} | {found.rule_nanos / EUR:.2f} | {found.nanos / EUR:+.2f} |"
        for rule, found in zip(RULES, compare(lives, {"a": billed}), strict=True)
    )
    return f"""# The same month under the rules of other tools

Most tools use samples only, and count them in different ways, so that their bills differ.
`gpu-ledger compare P` applies the rules of these tools to the samples of month P, for each tenant:

{rules}

Each rule is tested against numbers that its tool publishes: MOC's expected invoices (86.54 for a
little under 48 hours at 1.803, 76.89 for 48 hours with 11 hours of outage at 2.078), the starts and
ends that OpenCost expects of samples, and koku's worked example of an A100 in slices (3.43, 2.57
and 1.71 at 3 dollars an hour; 6, 18 and 6 before it knew slices).

The ledger bills the whole seconds from the start of the first container to the end of the last
one, by the exact share of the card, without the time of credited outages. Its column is the exact
cost of the month before rounding: the total of the invoices of the month without corrections of
earlier months.

## An example

Three pods at 4.00 an hour: half an hour of a card from 10:05; a card from 10:00 to 20:30, with
samples only in the first and the last half hour; an hour of a MIG slice of 3/7 of the compute and
half of the memory of a card. The ledger bills 2.00 + 42.00 + 2.00 = 46.00.

| rule | bills | difference |
|---|---|---|
{rows}
"""


def test_the_page_shows_the_results_of_the_rules() -> None:
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
