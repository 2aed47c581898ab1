"""Unknown things: use without a price, devices without a class, rates that one person changed.

Put here: what was used and cannot be valued, as findings.
Not here: classification (`domain.gpu`) or the choice of a rate (`domain.decisions`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from domain.errors import LedgerError
from domain.findings import Finding
from domain.interval import HOUR
from quality.catalogue import CATALOGUE


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """Device seconds of one kind in one cluster, and in which hours they lie."""

    cluster_id: str
    gpu_class: str
    mig_profile: str
    resource: str
    tenants: tuple[str, ...]
    first_hour_started_at: datetime
    last_hour_started_at: datetime
    device_seconds: int


def unpriced_findings(uses: Iterable[Use], has_price_list: bool) -> list[Finding]:
    """Use without a rate; without any price list there is nothing to miss."""
    if not has_price_list:
        return []
    return [_use("usage_without_price", use) for use in sorted(uses)]


def unknown_device_findings(uses: Iterable[Use]) -> list[Finding]:
    return [_use("device_unknown", use) for use in sorted(uses)]


def price_change_findings(changes: Iterable[LedgerError]) -> list[Finding]:
    """Large changes of price that one person signed, as `domain.decisions` found them."""
    kind = CATALOGUE["price_change_needs_second_name"]
    return [kind.finding(where=c.where, seen=c.seen, what_to_do=c.remedy) for c in changes]


def _use(name: str, use: Use) -> Finding:
    shape = f"{use.gpu_class or 'unknown class'} {use.mig_profile or 'unknown profile'}"
    return CATALOGUE[name].finding(
        where=f"cluster {use.cluster_id}, {use.resource} ({shape})",
        seen=f"{use.device_seconds} device seconds of {len(use.tenants)} tenants "
        f"({', '.join(use.tenants[:5])})",
        cluster_id=use.cluster_id,
        tenant=use.tenants[0] if len(use.tenants) == 1 else "",
        started_at=use.first_hour_started_at,
        ended_at=use.last_hour_started_at + HOUR,
        seconds=use.device_seconds,
    )
