"""The price that applies, and large changes of a price.

Put here: the price of a cluster, class, profile and instant; changes that need a second name.
Not here: multiplication and rounding of a price (`domain.money`), or the finding about a missing
name (`quality`).

A row that names the cluster or the profile takes precedence over a row that does not. A row that
names only the cluster and a row that names only the profile are equally specific: a third row must
name both.

A price that is wrong by a factor of ten or a hundred is the most frequent large error of a month. A
price changes when another row applies: a row begins, a more specific row begins, or a more specific
row ends and the general row applies again. The price of a profile is not compared with the price of
the whole card, because that would need the geometry of the card.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from domain.decisions.problems import DecisionsContradict
from domain.decisions.rows import WHOLE, Rate
from domain.errors import BadInput
from domain.interval import Interval, format_instant, subtract

Key = tuple[str, str, str]


class Rates:
    """The price list, indexed by cluster, class and profile."""

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
        """The price that applies, or None; raises if two rows are equally specific."""
        for keys in _from_most_specific(cluster_id, gpu_class, mig_profile):
            rows = [rate for key in keys for rate in self._by_key.get(key, ())]
            valid = [rate for rate in rows if rate.validity.contains(instant)]
            if len(valid) > 1:
                where = _describe(cluster_id, gpu_class, mig_profile)
                raise _two_rates(f"{where} at {format_instant(instant)}", *valid[:2])
            if valid:
                return valid[0]
        return None

    def spans(
        self, cluster_id: str, gpu_class: str, mig_profile: str, window: Interval
    ) -> list[tuple[Interval, Rate | None]]:
        """The intervals of the window with one price each; None where no price applies."""
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

    def undecided(self) -> Iterator[DecisionsContradict]:
        """Pairs of a cluster's row and a profile's row without a third row for both."""
        for rows in list(self._by_key.values()):
            for rate in rows:
                if rate.cluster_id and rate.mig_profile == WHOLE:
                    yield from self._undecided_against(rate)

    def _undecided_against(self, of_cluster: Rate) -> Iterator[DecisionsContradict]:
        cluster_id, gpu_class = of_cluster.cluster_id, of_cluster.gpu_class
        for mig_profile in sorted(self._profiles.get(gpu_class, ())):
            deciding = self._by_key.get((cluster_id, gpu_class, mig_profile), [])
            for of_profile in self._by_key["", gpu_class, mig_profile]:
                left = _undecided_time(of_cluster, of_profile, deciding)
                if left:
                    where = _describe(cluster_id, gpu_class, mig_profile)
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


def _describe(cluster_id: str, gpu_class: str, mig_profile: str) -> str:
    return f"{gpu_class} / {mig_profile} in {cluster_id or 'any cluster'}"


def _two_rates(where: str, first: Rate, second: Rate) -> DecisionsContradict:
    lines = " and ".join(
        f"line {rate.line} ({rate.money_per_hour} per hour for "
        f"{_describe(rate.cluster_id, rate.gpu_class, rate.mig_profile)}, {rate.validity})"
        for rate in (first, second)
    )
    return DecisionsContradict(
        where=where,
        seen=f"two rows of rates.csv are equally specific: {lines}",
        why="gpu-ledger does not choose between two prices",
        remedy="add a row that names both the cluster and the profile, or end one of the two",
    )


_END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)


def _undecided_time(one: Rate, other: Rate, deciding: Iterable[Rate]) -> list[Interval]:
    """The time in which both rows apply, and no row that names cluster and profile."""
    whole = Interval(one.valid_from, one.valid_until or _END_OF_TIME)
    common = other.validity.clipped_to(whole)
    if common is None:
        return []
    decided = [rate.validity.clipped_to(common) for rate in deciding]
    return subtract([common], [piece for piece in decided if piece])


# Large changes ------------------------------------------------------------------------------------

LARGEST_CHANGE_PERCENT = 25
"""Only a larger change needs a second name."""


@dataclass(frozen=True, slots=True)
class PriceChange:
    """The price of a class and profile changes at `at` from `before` to `now`."""

    before: Rate
    now: Rate
    at: datetime

    @property
    def changed_row(self) -> Rate:
        """The row that needs the second name: it begins at `at`, or else ends then."""
        return self.now if self.now.valid_from == self.at else self.before

    @property
    def is_large(self) -> bool:
        if self.before.currency != self.now.currency:
            return True  # the two amounts cannot be compared, so two people check it
        difference = abs(self.now.rate_nanos_per_hour - self.before.rate_nanos_per_hour)
        return difference * 100 > self.before.rate_nanos_per_hour * LARGEST_CHANGE_PERCENT

    def applies_in(self, window: Interval) -> bool:
        """Whether the new price applies in a part of the window."""
        piece = self.now.validity.clipped_to(window)
        return piece is not None and self.at < piece.ended_at

    @property
    def percent(self) -> str:
        old, new = self.before.rate_nanos_per_hour, self.now.rate_nanos_per_hour
        if self.before.currency != self.now.currency or old == 0:
            return ""
        tenths = abs(new - old) * 1000 // old
        return f", {'+' if new > old else '-'}{tenths // 10}.{tenths % 10} %"


class PriceChangeNeedsSecondName(BadInput):
    """A price changes by more than a quarter, and its row has one name."""

    code = "DEC-003"

    def __init__(self, change: PriceChange) -> None:
        now, before, row = change.now, change.before, change.changed_row
        super().__init__(
            where=f"rates.csv line {row.line}, column second_name",
            seen=f"from {format_instant(change.at)} {now.gpu_class} / {now.mig_profile} costs "
            f"{now.money_per_hour} per hour, after {before.money_per_hour} (line {before.line})"
            f"{change.percent}; only {row.decided_by} decided it",
            why=f"a change of more than {LARGEST_CHANGE_PERCENT} % is often a typing error",
            remedy="let a second person check the price and enter the name in second_name",
        )
        self.change = change


def unsigned_price_changes(rates: Iterable[Rate]) -> list[PriceChangeNeedsSecondName]:
    """The large changes without a second name, in order of class, profile, cluster and time."""
    same_thing: defaultdict[tuple[str, str], list[Rate]] = defaultdict(list)
    for rate in rates:
        same_thing[rate.gpu_class, rate.mig_profile].append(rate)
    unsigned: dict[PriceChange, None] = {}  # each once, even if it concerns several clusters
    for _, rows in sorted(same_thing.items()):
        for cluster_id in sorted({rate.cluster_id for rate in rows}):
            for change in _changes([r for r in rows if r.cluster_id in ("", cluster_id)]):
                if change.is_large and not change.changed_row.second_name:
                    unsigned[change] = None
    return [PriceChangeNeedsSecondName(change) for change in unsigned]


def unsigned_since(
    sealed: Iterable[Rate], present: Iterable[Rate], at: datetime
) -> list[PriceChangeNeedsSecondName]:
    """The large changes at `at` from the sealed prices to the present ones.

    The present table alone does not show that a price was edited in place; the comparison with the
    copy of the last close does.
    """
    until = [replace(rate, valid_until=at) for rate in sealed if rate.validity.contains(_last(at))]
    since = [
        replace(rate, valid_from=max(rate.valid_from, at))
        for rate in present
        if rate.valid_until is None or rate.valid_until > at
    ]
    changes = unsigned_price_changes([*until, *since])
    return [problem for problem in changes if problem.change.at == at]


def _last(at: datetime) -> datetime:
    return at - timedelta(seconds=1)


def _changes(rows: list[Rate]) -> Iterator[PriceChange]:
    """The price before and after each change; after a gap, the last price before it counts."""
    before: Rate | None = None
    for edge in sorted({edge for rate in rows for edge in rate.validity.edges()}):
        now = _applying_at(rows, edge)
        if before is not None and now is not None and now is not before:
            yield PriceChange(before, now, edge)
        before = now or before


def _applying_at(rows: list[Rate], instant: datetime) -> Rate | None:
    valid = [rate for rate in rows if rate.validity.contains(instant)]
    return max(valid, key=lambda r: (r.specificity, r.valid_from, r.line), default=None)
