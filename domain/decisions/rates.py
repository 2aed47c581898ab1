"""Which price applies: the most specific row that holds, and no guess between two.

Put here: the lookup by cluster, class, profile and instant, and the search for undecided keys.
Not here: how a price is multiplied and rounded (`domain.money`).

A row that names the cluster or the profile stands before one that does not. A row that names only
the cluster and one that names only the profile are equally specific: which is meant for that
profile in that cluster must be said by a third row that names both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from domain.decisions.errors import NoRate, TwoRates
from domain.decisions.rows import WHOLE, Rate
from domain.interval import Interval, format_instant, subtract

Key = tuple[str, str, str]


class Rates:
    """The price list, indexed by what its rows name."""

    def __init__(self, rates: Iterable[Rate] = ()) -> None:
        self._by_key: defaultdict[Key, list[Rate]] = defaultdict(list)
        self._profiles: defaultdict[str, set[str]] = defaultdict(set)
        for rate in sorted(rates, key=lambda rate: rate.valid_from):
            self._by_key[_key(rate)].append(rate)
            if not rate.cluster_id and rate.mig_profile != WHOLE:
                self._profiles[rate.gpu_class].add(rate.mig_profile)

    def find(
        self, cluster_id: str, gpu_class: str, mig_profile: str, instant: datetime
    ) -> Rate | None:
        """The price that holds, or None; two equally specific ones are refused."""
        for keys in _from_most_specific(cluster_id, gpu_class, mig_profile):
            rows = [rate for key in keys for rate in self._by_key.get(key, ())]
            valid = [rate for rate in rows if rate.validity.contains(instant)]
            if len(valid) > 1:
                where = _described(cluster_id, gpu_class, mig_profile)
                raise _two_rates(f"{where} at {format_instant(instant)}", *valid[:2])
            if valid:
                return valid[0]
        return None

    def at(self, cluster_id: str, gpu_class: str, mig_profile: str, instant: datetime) -> Rate:
        """The price that holds; none is an error, never a price of 0."""
        rate = self.find(cluster_id, gpu_class, mig_profile, instant)
        if rate is None:
            or_whole = "" if mig_profile == WHOLE else f" or {WHOLE}"
            raise NoRate(
                where=f"{_described(cluster_id, gpu_class, mig_profile)} at "
                f"{format_instant(instant)}",
                seen="no row of rates.csv holds",
                why="use without a price can neither be billed nor given away unseen",
                remedy=f"add a row for {gpu_class} to rates.csv, for {mig_profile}{or_whole}",
            )
        return rate

    def spans(
        self, cluster_id: str, gpu_class: str, mig_profile: str, window: Interval
    ) -> list[tuple[Interval, Rate | None]]:
        """The window cut where the price changes, each piece with its price or None."""
        levels = _from_most_specific(cluster_id, gpu_class, mig_profile)
        rows = [rate for keys in levels for key in keys for rate in self._by_key.get(key, ())]
        pieces = window.split_at(edge for rate in rows for edge in rate.validity.edges())
        joined: list[tuple[Interval, Rate | None]] = []
        for piece in pieces:
            rate = self.find(cluster_id, gpu_class, mig_profile, piece.started_at)
            if joined and joined[-1][1] == rate:
                piece = Interval(joined.pop()[0].started_at, piece.ended_at)
            joined.append((piece, rate))
        return joined

    def undecided(self) -> Iterator[TwoRates]:
        """Pairs of a cluster's row and a profile's row that no third row decides between."""
        for rows in list(self._by_key.values()):
            for rate in rows:
                if rate.cluster_id and rate.mig_profile == WHOLE:
                    yield from self._undecided_against(rate)

    def _undecided_against(self, of_cluster: Rate) -> Iterator[TwoRates]:
        cluster_id, gpu_class = of_cluster.cluster_id, of_cluster.gpu_class
        for mig_profile in sorted(self._profiles.get(gpu_class, ())):
            deciding = self._by_key.get((cluster_id, gpu_class, mig_profile), [])
            for of_profile in self._by_key["", gpu_class, mig_profile]:
                left = _undecided_time(of_cluster, of_profile, deciding)
                if left:
                    where = _described(cluster_id, gpu_class, mig_profile)
                    since = format_instant(left[0].started_at)
                    yield _two_rates(f"{where} from {since}", of_cluster, of_profile)


def _key(rate: Rate) -> Key:
    return (rate.cluster_id, rate.gpu_class, rate.mig_profile)


def _from_most_specific(cluster_id: str, gpu_class: str, mig_profile: str) -> list[list[Key]]:
    any_whole = [("", gpu_class, WHOLE)]
    if mig_profile == WHOLE:
        return [[(cluster_id, gpu_class, WHOLE)], any_whole]
    of_both = [(cluster_id, gpu_class, mig_profile)]
    return [of_both, [(cluster_id, gpu_class, WHOLE), ("", gpu_class, mig_profile)], any_whole]


def _described(cluster_id: str, gpu_class: str, mig_profile: str) -> str:
    return f"{gpu_class} / {mig_profile} in {cluster_id or 'any cluster'}"


def _two_rates(where: str, first: Rate, second: Rate) -> TwoRates:
    lines = " and ".join(
        f"line {rate.line} ({rate.money_per_hour} per hour for "
        f"{_described(rate.cluster_id, rate.gpu_class, rate.mig_profile)}, {rate.validity})"
        for rate in (first, second)
    )
    return TwoRates(
        where=where,
        seen=f"two rows of rates.csv are equally specific: {lines}",
        why="the two prices differ, and choosing one would be a guess on a bill",
        remedy="add a row that names both the cluster and the profile, or end one of the two",
    )


_END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)


def _undecided_time(one: Rate, other: Rate, deciding: Iterable[Rate]) -> list[Interval]:
    """When both hold and no deciding row does."""
    whole = Interval(one.valid_from, one.valid_until or _END_OF_TIME)
    common = other.validity.clipped_to(whole)
    if common is None:
        return []
    decided = [rate.validity.clipped_to(common) for rate in deciding]
    return subtract([common], [piece for piece in decided if piece])
