"""The price of a device by the decisions, as a person would look it up in rates.csv."""

from __future__ import annotations

from datetime import datetime

from domain.decisions import WHOLE, Decisions, Rate


def price_at(
    decisions: Decisions, cluster_id: str, gpu_class: str, mig_profile: str, instant: datetime
) -> Rate | None:
    """The most specific row that holds, or None; decisions that can be loaded have only one."""
    rows = [
        rate
        for rate in decisions.rates
        if rate.cluster_id in ("", cluster_id)
        and rate.gpu_class == gpu_class
        and rate.mig_profile in (WHOLE, mig_profile)
        and rate.validity.contains(instant)
    ]
    most = max((rate.specificity for rate in rows), default=0)
    found = [rate for rate in rows if rate.specificity == most]
    assert len(found) < 2, found
    return found[0] if found else None
