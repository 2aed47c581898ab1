"""The truth about a fleet, in the grains of the marts.

Put here: the truth ledger's rows (`fake_gpu.truth`, which shares no code with the pipeline), added
up by the definition in the first line of each mart.
Not here: the facts of the pipeline (`counted_facts`), or comparing the two (`against_truth`).

Times are seconds since 1970. The price class of a product comes from the reviewed table of the
decisions.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fake_gpu.fleet.export import plain_rows
from fake_gpu.fleet.model import Fleet
from fake_gpu.truth.ledger import ledger

HOUR = 3600
PRODUCTS = Path(__file__).parents[2] / "dbt" / "seeds" / "gpu_products.csv"

Facts = dict[tuple[Any, ...], Any]
Row = Mapping[str, Any]


class Truth:
    """One fleet; each grain is calculated when it is first used.

    The product is that of the card, unless its node's label was wrong: `labelled` has the wrong
    product, and the interval of binding in which a pod received it.
    """

    def __init__(self, fleet: Fleet, labelled: Iterable[tuple[str, int, int]] = ()) -> None:
        self.labelled = tuple(labelled)
        self.rows = plain_rows(fleet)
        self.window: Any = self.rows["window"][0]
        self.cluster_ids = [str(row["cluster_id"]) for row in self.rows["clusters"]]

    @cached_property
    def pods(self) -> list[dict[str, Any]]:
        """The ledger's rows: pod × node × product × profile × resource."""
        return ledger(self.rows, "allocations", instants=False)

    @cached_property
    def nodes(self) -> dict[tuple[Any, ...], Row]:
        """(cluster, node, hour): the ledger's row."""
        return {
            (row["cluster_id"], row["node_name"], row["hour_started_at"]): row
            for row in ledger(self.rows, "node-hours", instants=False)
        }

    @cached_property
    def clusters(self) -> dict[tuple[Any, ...], Row]:
        """(cluster, hour): the ledger's row."""
        return {
            (row["cluster_id"], row["hour_started_at"]): row
            for row in ledger(self.rows, "cluster-hours", instants=False)
            if row["cluster_id"]
        }

    def hours(self) -> range:
        return range(self.window["started_at"], self.window["ended_at"], HOUR)

    # --- pods --------------------------------------------------------------------------------

    @cached_property
    def pod_hours(self) -> Facts:
        """(cluster, pod, hour): running and held seconds, times devices."""
        return self._summed(lambda row: (row["cluster_id"], row["pod_uid"]))

    @cached_property
    def allocations(self) -> Facts:
        """(cluster, pod, resource; '' for claims): running and held seconds, times devices."""
        found: Facts = {}
        for row in self.pods:
            key = (row["cluster_id"], row["pod_uid"], row["resource"])
            running, held = found.get(key, (0, 0))
            count = row["device_count"]
            found[key] = (
                running + row["running_seconds"] * count,
                held + row["held_seconds"] * count,
            )
        return {key: pair for key, pair in found.items() if any(pair)}

    @cached_property
    def pod_shares(self) -> Facts:
        """(cluster, namespace, profile): seconds of shares: three running, one held."""
        names = ("running_compute", "running_memory", "running_weighted", "held_compute")
        found: defaultdict[tuple[Any, ...], list[Fraction]] = defaultdict(
            lambda: [Fraction(0)] * len(names)
        )
        for row in ledger(self.rows, "tenant-periods", instants=False):
            sums = found[row["cluster_id"], row["namespace"], row["mig_profile"]]
            for place, name in enumerate(names):
                sums[place] += _seconds(row, name)
        return {key: tuple(sums) for key, sums in found.items() if any(sums)}

    # --- tenants -----------------------------------------------------------------------------

    @cached_property
    def tenant_hours(self) -> Facts:
        """(cluster, namespace, class, profile, hour): running and held seconds of devices."""
        return self._summed(
            lambda row: (row["cluster_id"], row["namespace"], *self.class_and_profile(row))
        )

    @cached_property
    def weighted_hours(self) -> Facts:
        """(cluster, namespace, class, profile, hour): running seconds of cards by weight."""
        found: Counter[tuple[Any, ...]] = Counter()
        for hour in self.hours():
            window = {"started_at": hour, "ended_at": min(hour + HOUR, self.window["ended_at"])}
            for product, holds in self._by_label():
                rows = self.rows | {"window": [window], "holds": holds}
                for row in ledger(rows, "tenant-periods", instants=False):
                    gpu_class = _classes()[product or row["product"]]
                    key = (row["cluster_id"], row["namespace"], gpu_class, row["mig_profile"], hour)
                    found[key] += _seconds(row, "running_weighted")  # type: ignore[assignment]
        return {key: seconds for key, seconds in found.items() if seconds}

    @cached_property
    def tenant_periods(self) -> Facts:
        """(namespace, class, profile): running and held seconds of devices, in all clusters."""
        return _added((key[1:4], pair) for key, pair in self.tenant_hours.items())

    @cached_property
    def workload_periods(self) -> Facts:
        """(namespace, kind, name, class, profile): running and held seconds, and how many pods."""
        seconds: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
        pods: defaultdict[tuple[Any, ...], set[str]] = defaultdict(set)
        for row in self.pods:
            workload = (row["workload_kind"] or "Pod", row["workload_name"] or row["pod_name"])
            key = (row["namespace"], *workload, *self.class_and_profile(row))
            if row["running_seconds"] or row["held_seconds"]:
                seconds[key][0] += row["running_seconds"] * row["device_count"]
                seconds[key][1] += row["held_seconds"] * row["device_count"]
                pods[key].add(row["pod_uid"])
        return {key: (*pair, len(pods[key])) for key, pair in seconds.items()}

    def pod_hours_of(
        self, wanted: Callable[[tuple[str, str]], bool]
    ) -> Iterator[tuple[Row, tuple[str, str], int]]:
        """Rows, class and profile of some pods (by cluster and UID), for each hour."""
        for row in self.pods:
            if wanted((row["cluster_id"], row["pod_uid"])):
                for hour in _touched(*self._running(row)):
                    yield row, self.class_and_profile(row), hour

    # --- nodes -------------------------------------------------------------------------------

    @cached_property
    def node_class_hours(self) -> Facts:
        """(cluster, node, class, profile, hour): most devices running at once; seconds of them."""
        found: Facts = {}
        grouped: defaultdict[tuple[Any, ...], list[tuple[int, int, int, int]]] = defaultdict(list)
        cards: tuple[defaultdict[tuple[Any, ...], list[tuple[int, int]]], ...] = (
            defaultdict(list),
            defaultdict(list),
        )
        shared = self._cards_of_shares
        for row, state, began, ended in self._on_nodes():
            key = (row["cluster_id"], row["node_name"], *self.class_and_profile(row))
            running = int(state == "running")
            if card := shared.get((row["cluster_id"], row["claim_uid"])):
                cards[running][key, card].append((began, ended))
                continue
            grouped[key].append((running, began, ended, row["device_count"]))
        # Shares of a card are one device, which runs while any of them does.
        held, ran = cards
        for key, card in {*held, *ran}:
            busy = _united(ran[key, card])
            grouped[key] += [(1, began, ended, 1) for began, ended in busy]
            for began, ended in _united(held[key, card]):
                grouped[key] += [(0, *piece, 1) for piece in _between(began, ended, busy)]
        for key, spans in grouped.items():
            for hour in self.hours():
                found[*key, hour] = _most_and_seconds(spans, hour, hour + HOUR)
        return {key: numbers for key, numbers in found.items() if any(numbers)}

    @cached_property
    def _cards_of_shares(self) -> dict[tuple[str, str], str]:
        """(cluster, claim): the card of its share."""
        makeup = {
            (d["cluster_id"], d["node_name"], d["device_id"]): d["makeup"]
            for d in self.rows["devices"]
        }
        return {
            (hold["cluster_id"], hold["claim_uid"]): hold["device_id"]
            for hold in self.rows["holds"]
            if makeup[hold["cluster_id"], hold["node_name"], hold["device_id"]] == "shared"
        }

    @cached_property
    def node_shares(self) -> Facts:
        """(cluster, node, class, dimension, hour): running and held card-seconds."""
        found: defaultdict[tuple[Any, ...], dict[str, Fraction]] = defaultdict(
            lambda: {"running": Fraction(0), "held": Fraction(0)}
        )
        for row, state, began, ended in self._on_nodes():
            for dimension in ("compute", "memory"):
                share = Fraction(
                    row[f"{dimension}_share_numerator"], row[f"{dimension}_share_denominator"]
                )
                for hour in self.hours():
                    if seconds := _overlap(began, ended, hour, hour + HOUR):
                        key = (
                            row["cluster_id"],
                            row["node_name"],
                            self._class_of(row),
                            dimension,
                            hour,
                        )
                        found[key][state] += share * seconds
        return {key: (sums["running"], sums["held"]) for key, sums in found.items()}

    @cached_property
    def sliced_nodes(self) -> set[tuple[Any, ...]]:
        """(cluster, node) on which pods ran that did not hold whole cards."""
        cut = {
            (row["cluster_id"], row["node_name"], row["device_id"])
            for row in self.rows["devices"]
            if row["makeup"] not in ("whole", "shared", "passthrough")
        }
        held = ((h["cluster_id"], h["node_name"], h["device_id"]) for h in self.rows["holds"])
        return {key[:2] for key in held if key in cut}

    def busy_cards(self) -> Iterator[tuple[int, int]]:
        """The intervals in which each card was running a pod, clipped to the window."""
        pods = {(r["cluster_id"], r["pod_uid"]): r for r in self.pods}
        card_of = {
            (d["cluster_id"], d["node_name"], d["device_id"]): d["card_id"]
            for d in self.rows["devices"]
        }
        spans: defaultdict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
        for hold in self.rows["holds"]:
            pod = pods[hold["cluster_id"], hold["pod_uid"]]
            place = (hold["cluster_id"], hold["node_name"], hold["device_id"])
            began, ended = self._running(pod)
            spans[*place[:2], card_of[place]].append((began, ended))
        for each in spans.values():
            yield from _united(each)

    # --- parts of the grains -----------------------------------------------------------------

    def _label_at(self, second: int) -> str:
        """The wrong product of the label at this second; '' if the label was right."""
        said = [product for product, since, until in self.labelled if since <= second < until]
        return said[0] if said else ""

    def _by_label(self) -> Iterator[tuple[str, list[Any]]]:
        """Held devices, by the label at binding."""
        for product in ("", *(product for product, _, _ in self.labelled)):
            holds: list[Any] = self.rows["holds"]
            yield product, [h for h in holds if self._label_at(h["from_at"]) == product]

    def _class_of(self, row: Row) -> str:
        return _classes()[self._label_at(row["bound_at"]) or row["product"]]

    def class_and_profile(self, row: Row) -> tuple[str, str]:
        return self._class_of(row), row["mig_profile"]

    def _running(self, row: Row) -> tuple[int, int]:
        """The interval in which an allocation ran, inside the window."""
        until = min(row["ended_at"] or self.window["ended_at"], self.window["ended_at"])
        started = row["started_at"] if row["started_at"] is not None else until
        return max(started, row["bound_at"], self.window["started_at"]), until

    def _held(self, row: Row) -> tuple[int, int]:
        """The interval in which it was bound but not running, inside the window."""
        until = min(row["ended_at"] or self.window["ended_at"], self.window["ended_at"])
        started = row["started_at"] if row["started_at"] is not None else until
        return max(row["bound_at"], self.window["started_at"]), min(started, until)

    def _summed(self, key_of: Callable[[Row], tuple[Any, ...]]) -> Facts:
        """Running and held seconds of devices in every hour, by a key."""
        found: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
        for row in self.pods:
            for place, (began, ended) in enumerate((self._running(row), self._held(row))):
                for hour in _touched(began, ended):
                    seconds = _overlap(began, ended, hour, hour + HOUR)
                    found[*key_of(row), hour][place] += seconds * row["device_count"]
        return {key: tuple(pair) for key, pair in found.items() if any(pair)}

    def _on_nodes(self) -> Iterator[tuple[Row, str, int, int]]:
        """Devices on a node: those of one claim once, running while any of its pods runs."""
        claims: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in self.pods:
            if row["claim_uid"]:
                key = (row["cluster_id"], row["claim_uid"], row["product"], row["mig_profile"])
                claims[key].append(row)
                continue
            yield row, "running", *self._running(row)
            yield row, "held", *self._held(row)
        for rows in claims.values():
            runs = _united([self._running(row) for row in rows])
            taken = _united([(self._held(row)[0], self._running(row)[1]) for row in rows])
            for began, ended in runs:
                yield rows[0], "running", began, ended
            for began, ended in taken:
                for free_from, free_until in _between(began, ended, runs):
                    yield rows[0], "held", free_from, free_until


def added_up(parts: Iterable[Facts]) -> Facts:
    """Facts of several fleets as one: the numbers of equal keys are added."""
    return _added(item for part in parts for item in part.items())


def _added(items: Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> Facts:
    found: Facts = {}
    for key, numbers in items:
        before = found.get(key, (0,) * len(numbers))
        found[key] = tuple(b + n for b, n in zip(before, numbers, strict=True))
    return found


def _seconds(row: Row, name: str) -> Fraction:
    return Fraction(row[f"{name}_seconds_numerator"], row[f"{name}_seconds_denominator"])


@cache
def _classes() -> dict[str, str]:
    with PRODUCTS.open(encoding="utf-8") as file:
        return {row["product"]: row["gpu_class"] for row in csv.DictReader(file)}


def _overlap(started: int, ended: int, since: int, until: int) -> int:
    return max(0, min(ended, until) - max(started, since))


def _touched(began: int, ended: int) -> range:
    return range(began // HOUR * HOUR, ended, HOUR)


def _united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for began, ended in sorted(span for span in spans if span[0] < span[1]):
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ended))
        else:
            found.append((began, ended))
    return found


def _between(began: int, ended: int, taken: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for since, until in taken:
        if began < min(since, ended):
            yield began, min(since, ended)
        began = max(began, until)
    if began < ended:
        yield began, ended


def _most_and_seconds(
    spans: Iterable[tuple[int, int, int, int]], since: int, until: int
) -> tuple[int, int, int]:
    """Most devices running at one second of the hour; seconds of running and of held ones."""
    changes: Counter[int] = Counter()
    running_seconds = held_seconds = 0
    for running, began, ended, count in spans:
        began, ended = max(began, since), min(ended, until)
        if began >= ended:
            continue
        if running:
            running_seconds += count * (ended - began)
            changes[began] += count
            changes[ended] -= count
        else:
            held_seconds += count * (ended - began)
    level = most = 0
    for at in sorted(changes):
        level += changes[at]
        most = max(most, level)
    return most, running_seconds, held_seconds
