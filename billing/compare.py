"""The facts of a period under the published rules of other tools, and the difference per tenant.

Put here: the rules, each with its tool, and reading the pods of a period.
Not here: the rule of gpu-ledger itself (`fct_charges`).

Each rule follows the publication of its tool and is tested against published numbers. All rules use
the samples of a pod: none of these tools has a second source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from domain.billing_period import BillingPeriod
from domain.interval import Interval, intersection, union
from domain.money import divide_rounding_half_even
from warehouse.connection import connected
from warehouse.home import Home
from warehouse.sql_files import fetch_rows

if TYPE_CHECKING:
    import duckdb

STEP_SECONDS = 900
"""MOC queries with a step of 15 minutes."""

RESOLUTION_SECONDS = 60
"""OpenCost queries with a resolution of one minute by default."""

NANOS_PER_CENT = 10**7


@dataclass(frozen=True, slots=True)
class SampledUse:
    """A run of samples without a gap; both ends are samples."""

    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class PricedPodUse:
    """One pod on one kind of device, in the part of a period in which one price holds."""

    tenant: str
    cluster_id: str
    pod_uid: str
    gpu_class: str
    is_slice: bool
    device_count: int
    weight: Fraction
    compute_share: Fraction  # of a card's compute slots
    rate_nanos_per_hour: int
    window: Interval
    sampled: tuple[SampledUse, ...]
    outages: tuple[Interval, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of counting, and its tool."""

    name: str
    title: str
    says: str
    nanos: Callable[[Sequence[PricedPodUse]], Fraction]  # of one tenant


@dataclass(frozen=True, slots=True, order=True)
class RuleDifference:
    """The amount of a rule for a tenant, beside the amount of the ledger."""

    tenant: str
    rule: str
    ledger_nanos: int
    rule_nanos: int

    @property
    def nanos(self) -> int:
        return self.rule_nanos - self.ledger_nanos


def moc(uses: Sequence[PricedPodUse]) -> Fraction:
    """Steps with the pod, without outages; whole hours and cents per cluster, class and price."""
    seconds: defaultdict[tuple[str, str, int], int] = defaultdict(int)
    for use in uses:
        if not use.is_slice:  # a MIG slice is a service unit without a price there
            key = (use.cluster_id, use.gpu_class, use.rate_nanos_per_hour)
            seconds[key] += _stepped_seconds(use) * use.device_count
    cents = 0
    for (_, _, rate), total in seconds.items():
        hours = -(-total // 3600)
        cents += (hours * rate + NANOS_PER_CENT // 2) // NANOS_PER_CENT  # half up
    return Fraction(cents * NANOS_PER_CENT)


def _stepped_seconds(use: PricedPodUse) -> int:
    spans = []
    for run in use.sampled:
        first = -(-int(run.first_at.timestamp()) // STEP_SECONDS) * STEP_SECONDS
        last = int(run.last_at.timestamp()) // STEP_SECONDS * STEP_SECONDS
        if first <= last:
            spans.append(Interval(_instant(first), _instant(last + STEP_SECONDS)))
    clipped = [span for joined in union(spans) if (span := joined.clipped_to(use.window))]
    outages = intersection(clipped, use.outages)
    return sum(one.seconds for one in clipped) - sum(one.seconds for one in outages)


def opencost(uses: Sequence[PricedPodUse]) -> Fraction:
    """From the first sample of a pod to the last, with all gaps between them."""
    return sum((_first_to_last(use) * _price(use, use.weight) for use in uses), Fraction(0))


def _first_to_last(use: PricedPodUse) -> int:
    if not use.sampled:
        return 0
    first = min(run.first_at for run in use.sampled)
    last = max(run.last_at for run in use.sampled)
    return int((last - first).total_seconds()) or RESOLUTION_SECONDS


def koku(uses: Sequence[PricedPodUse]) -> Fraction:
    """Sampled time, by the slices of a card's compute that a MIG instance has."""
    return sum(
        (
            _sampled_seconds(use) * _price(use, use.compute_share if use.is_slice else 1)
            for use in uses
        ),
        Fraction(0),
    )


def koku_without_slices(uses: Sequence[PricedPodUse]) -> Fraction:
    """Sampled time; a MIG instance costs as much as a card."""
    return sum((_sampled_seconds(use) * _price(use, 1) for use in uses), Fraction(0))


def _sampled_seconds(use: PricedPodUse) -> int:
    return sum(int((run.last_at - run.first_at).total_seconds()) for run in use.sampled)


def _price(use: PricedPodUse, weight: Fraction | int) -> Fraction:
    """Nanos per second."""
    return Fraction(weight) * use.device_count * use.rate_nanos_per_hour / 3600


def _instant(seconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


RULES: tuple[Rule, ...] = (
    Rule(
        "moc",
        "MOC (NERC): steps, rounded up to whole hours",
        "The usage scripts of the Mass Open Cloud count 15-minute steps with samples of the pod, "
        "subtract outages, add up the pods of a project on one class of cards, and round the sum "
        "up to whole hours and the cost to cents. MOC has no price for a MIG slice. It also bills "
        "requests of CPU or memory that correspond to more cards than the pod has; this rule does "
        "not.",
        moc,
    ),
    Rule(
        "opencost",
        "OpenCost: first sample to last",
        "OpenCost bills a pod from its first sample to its last, with all gaps between them; a "
        "single sample counts as one minute. This rule prices a slice by the ledger's weight.",
        opencost,
    ),
    Rule(
        "koku",
        "koku: sampled time, by compute slices",
        "Red Hat's cost management (koku) prices the time with samples of a card and its pod; a "
        "MIG instance by its part of the card's compute slices. This rule uses the ledger's price "
        "per hour instead of koku's price per month.",
        koku,
    ),
    Rule(
        "koku_without_slices",
        "koku before it knew slices: a card for a slice",
        "Until 2026 koku counted each device as one card, also a MIG instance.",
        koku_without_slices,
    ),
)


def compare(uses: Iterable[PricedPodUse], billed: Mapping[str, int]) -> list[RuleDifference]:
    """Per tenant and rule, against the exact cost of the ledger; rounded once per tenant."""
    by_tenant: defaultdict[str, list[PricedPodUse]] = defaultdict(list)
    for use in uses:
        by_tenant[use.tenant].append(use)
    return [
        RuleDifference(
            tenant, rule.name, billed.get(tenant, 0), _rounded(rule.nanos(by_tenant[tenant]))
        )
        for tenant in sorted({*by_tenant, *billed})
        for rule in RULES
    ]


def _rounded(exact: Fraction) -> int:
    return divide_rounding_half_even(exact.numerator, exact.denominator)


# Reading the pods ---------------------------------------------------------------------------------

_rows = partial(fetch_rows, __file__)

Pod = tuple[str, str]


def compare_period(home: Home, period: BillingPeriod) -> list[RuleDifference]:
    """The amounts of other tools for the facts of a period, per tenant and rule."""
    with connected(home.warehouse_path, read_only=True) as connection:
        billed = {
            name: int(nanos)
            for name, nanos in _rows(connection, "other_tools/costs", period=period.name)
        }
        return compare(_pod_uses(connection, period), billed)


def _pod_uses(
    connection: duckdb.DuckDBPyConnection, period: BillingPeriod
) -> Iterator[PricedPodUse]:
    sampled: defaultdict[Pod, list[SampledUse]] = defaultdict(list)
    for cluster, uid, first, last in _rows(
        connection, "other_tools/sample_runs", period=period.name
    ):
        sampled[cluster, uid].append(SampledUse(_utc(first), _utc(last)))
    pieces: defaultdict[Pod, list[Interval]] = defaultdict(list)
    for cluster, uid, first, last in _rows(connection, "other_tools/outages", period=period.name):
        pieces[cluster, uid].append(Interval(_utc(first), _utc(last)))
    outages = {pod: tuple(union(found)) for pod, found in pieces.items()}
    rows = _rows(connection, "other_tools/priced_pods", period=period.name)
    for (cluster, uid, _), of_pod in groupby(rows, key=lambda row: row[:3]):
        found = list(of_pod)
        # Samples before a change of the price have the earlier price.
        starts = [period.started_at, *(_utc(row[3]) for row in found[1:]), period.ended_at]
        for row, (first, until) in zip(found, pairwise(starts), strict=True):
            tenant, gpu_class, is_slice, count, *fractions, rate = row[4:]
            yield PricedPodUse(
                tenant=tenant,
                cluster_id=cluster,
                pod_uid=uid,
                gpu_class=gpu_class,
                is_slice=is_slice,
                device_count=count,
                weight=Fraction(*fractions[:2]),
                compute_share=Fraction(*fractions[2:]),
                rate_nanos_per_hour=int(rate),
                window=Interval(first, until),
                sampled=tuple(_clipped(sampled[cluster, uid], first, until)),
                outages=outages.get((cluster, uid), ()),
            )


def _clipped(runs: Sequence[SampledUse], first: datetime, until: datetime) -> Iterator[SampledUse]:
    for run in runs:
        if run.first_at < until and run.last_at >= first:
            yield SampledUse(max(run.first_at, first), min(run.last_at, until))


def _utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)
