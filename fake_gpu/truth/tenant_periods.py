"""One row per month, namespace, cluster, product and profile: seconds and weighted seconds.

Put here: the part of the truth ledger that sums usage by tenant and month.
Not here: prices; the truth ledger has no money.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from fake_gpu.truth.history import History, TrueHold

Key = tuple[str, str, str, str, str]


def tenant_periods(history: History) -> list[dict[str, Any]]:
    """The rows, sorted by key. While k pods share a claim, each of them holds 1/k of its device."""
    sums: dict[Key, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    sharers: dict[str, list[TrueHold]] = defaultdict(list)
    for hold in history.holds:
        if hold.claim_uid:
            sharers[hold.claim_uid].append(hold)
    for hold in history.holds:
        for state, at, until in _intervals(history, hold):
            for begin, end, k in _shared(hold, sharers.get(hold.claim_uid, []), at, until):
                _add(sums, hold, state, begin, end, k)
    return [_row(key, sums[key]) for key in sorted(sums)]


def _intervals(history: History, hold: TrueHold) -> list[tuple[str, int, int]]:
    """The held and the running time of a hold, clipped to the window and split at month ends."""
    runs = min(hold.running_from, hold.until_at)
    intervals = []
    for state, from_at, until_at in (
        ("held", hold.from_at, runs),
        ("running", runs, hold.until_at),
    ):
        begin, end = history.clip(from_at, until_at)
        while begin < end:
            month_end = _next_month(begin)
            intervals.append((state, begin, min(end, month_end)))
            begin = month_end
    return intervals


def _shared(
    hold: TrueHold, sharers: list[TrueHold], at: int, until: int
) -> list[tuple[int, int, int]]:
    """Consecutive (from, until, number of pods that hold the claim's device) in an interval."""
    if not hold.claim_uid:
        return [(at, until, 1)]
    same = [other for other in sharers if other.device is hold.device]
    moments = {at} | {m for o in same for m in (o.from_at, o.until_at) if at < m < until}
    ordered = sorted(moments)
    return [
        (a, b, sum(1 for other in same if other.held_at(a)))
        for a, b in zip(ordered, [*ordered[1:], until], strict=True)
    ]


def _add(
    sums: dict[Key, dict[str, Fraction]],
    hold: TrueHold,
    state: str,
    begin: int,
    end: int,
    k: int,
) -> None:
    device, pod = hold.device, hold.pod
    key = (_month(begin), pod.namespace, pod.cluster_id, device.product, device.mig_profile)
    seconds = Fraction((end - begin) * hold.count, k)
    weight = max(device.compute, device.memory)
    sums[key][f"{state}_device_seconds"] += Fraction((end - begin) * hold.devices, k)
    sums[key][f"{state}_compute_seconds"] += seconds * device.compute
    sums[key][f"{state}_memory_seconds"] += seconds * device.memory
    sums[key][f"{state}_weighted_seconds"] += seconds * weight


def _row(key: Key, sums: dict[str, Fraction]) -> dict[str, Any]:
    period, namespace, cluster_id, product, profile = key
    row: dict[str, Any] = {
        "billing_period": period,
        "namespace": namespace,
        "cluster_id": cluster_id,
        "product": product,
        "mig_profile": profile,
    }
    for state in ("running", "held"):
        for measure in ("device", "compute", "memory", "weighted"):
            value = sums.get(f"{state}_{measure}_seconds", Fraction(0))
            row[f"{state}_{measure}_seconds_numerator"] = value.numerator
            row[f"{state}_{measure}_seconds_denominator"] = value.denominator
    return row


def _month(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m")


def _next_month(second: int) -> int:
    moment = datetime.fromtimestamp(second, UTC)
    year, month = (moment.year + 1, 1) if moment.month == 12 else (moment.year, moment.month + 1)
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp())
