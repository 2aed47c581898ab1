"""Usage and grounds of a billing period as values, for tests of billing without a warehouse.

Put here: charges from a few numbers, priced with fractions and Python's own rounding.
Not here: facts in a database (`marts_by_hand`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

from billing.basis import Basis
from billing.billed_facts import BilledFacts
from billing.statement import ProviderFacts
from billing.usage import Charge, ChargeKey, DocumentUsage, PodUse, WorkloadDay
from domain.billing_period import BillingPeriod
from domain.decisions import Decisions, load_decisions
from domain.findings import Check, CheckResult
from domain.tenant import BelongsTo
from tests.marts_by_hand import PARTIES, RATES, SIGNED

RATE_PER_HOUR = "3.333333333"
RATE_NANOS = 3_333_333_333
TAXED = f"issuer,,Cloud,,,,2020-01-01,,{SIGNED},,19"
DECISIONS: Decisions = load_decisions(
    {
        "rates.csv": RATES + f",A100-40,whole,EUR,{RATE_PER_HOUR},2020-01-01,,{SIGNED},",
        "parties.csv": f"{PARTIES.rstrip()},tax_id_label,tax_percent\n{TAXED}",
    }
)
[RATE] = DECISIONS.rates
Price = tuple[str, int]
"""A rate's ID and its price for an hour."""
PRICE: Price = (RATE.rate_id, RATE_NANOS)
AMENDED: Price = ("amended", 2_718_281_829)
Seconds = Mapping[tuple[str, Fraction], int]
"""Device seconds by tenant and weight."""


def usage_of(period: BillingPeriod, seconds: Seconds, price: Price = PRICE) -> DocumentUsage:
    """One charge, pod and workload-day per tenant and weight."""
    rate_id, nanos_per_hour = price
    charges, days, pods = [], [], []
    for (tenant, weight), count in seconds.items():
        if not count:
            continue
        first = period.started_at
        until = first + timedelta(seconds=count)
        key = ChargeKey(
            tenant=tenant,
            belongs_to=BelongsTo.TENANT,
            gpu_class="A100-40",
            mig_profile="whole",
            cluster_id="c1",
            weight=weight,
            weight_policy="max default-1",
            started_at=first,
            rate_id=rate_id,
        )
        cost = round(Fraction(count * nanos_per_hour, 3600) * weight)
        charges.append(Charge(key, period.ended_at, nanos_per_hour, "EUR", count, cost))
        if count % 3 == 0:
            # An outage that covers a third of it.
            credited = replace(key, credited=True)
            seconds_back, cost_back = -(count // 3), -(cost // 3)
            charges.append(
                Charge(credited, period.ended_at, nanos_per_hour, "EUR", seconds_back, cost_back)
            )
            days.append(
                WorkloadDay(credited, first.date(), "Job", "train", seconds_back, cost_back)
            )
            pods.append(_pod(credited, first, until, seconds_back, cost_back))
        days.append(WorkloadDay(key, first.date(), "Job", "train", count, cost))
        pods.append(_pod(key, first, until, count, cost))
    return DocumentUsage(tuple(charges), tuple(days), tuple(pods))


def _pod(key: ChargeKey, first: datetime, until: datetime, seconds: int, cost: int) -> PodUse:
    return PodUse(
        key=key,
        pod_uid=f"uid-{key.tenant}-{key.weight}",
        pod_name="train",
        node_name="node-1",
        resource="nvidia.com/gpu",
        workload_kind="Job",
        workload_name="train",
        method="confirmed",
        device_count=1,
        first_started_at=first,
        last_ended_at=until,
        device_seconds=seconds,
        uncertain_device_seconds=0,
        cost_nanos=cost,
    )


def checked(period: BillingPeriod, facts: str = "0" * 64) -> CheckResult:
    """A check that permits the period to be billed."""
    return CheckResult(period, facts, checks=(Check("by hand", 1, 0),))


def basis_of(
    period: BillingPeriod, facts: str = "0" * 64, check_result: CheckResult | None = None
) -> Basis:
    """The basis of a billable period, or of one with another check."""
    return Basis(
        period=period,
        currency="EUR",
        decisions=DECISIONS.valid_in(period.interval),
        product_facts={},
        evidence={"c1": {"thanos": [facts]}},
        check_result=check_result or checked(period, facts),
        code_version="0.1.0",
        library_versions={},
    )


def grounds_of(
    period: BillingPeriod, seconds: Seconds, check_result: CheckResult | None = None
) -> BilledFacts:
    """Usage on its basis, without notes for the provider."""
    return BilledFacts(
        basis_of(period, check_result=check_result),
        usage_of(period, seconds),
        ProviderFacts((), (), (), ()),
    )
