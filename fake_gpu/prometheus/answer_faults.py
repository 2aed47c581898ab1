"""Faults of responses: wrong, incomplete or missing ones, between the samples and the client.

Put here: stores that vanish, partial and cut responses, errors and pages of another kind.
Not here: faults of samples (`scrape_faults`, `series_faults`).

These faults are in force at the time of the request. With a clock that stands still, the time of
a request is the time that it queries, so that a history can be read with its faults.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fake_gpu.fleet.model import Fault
from fake_gpu.prometheus.downsample import downsampled, without
from fake_gpu.prometheus.faults import SampleFaults, drawn, text, whole
from fake_gpu.prometheus.label_sets import LabelSet
from fake_gpu.prometheus.refusals import QueryRefused
from fake_gpu.prometheus.series import WindowSeries
from fake_gpu.prometheus.stores import SimulatedStore

LOGIN_PAGE = (
    "<!DOCTYPE html>\n<html><head><title>Log in</title></head><body>"
    '<form method="POST" action="/login"><button>Log in with OpenShift</button></form>'
    "</body></html>\n"
)
# Series that a lost receiver keeps in the fault that imitates a measured one.
_ALWAYS_WHOLE = ("up", "scrape_duration_seconds", "scrape_samples_scraped")


# Faults by which series are missing in answers; a coarse sample is one too.
_TAKE_SERIES = (
    "store_vanishes",
    "store_hangs",
    "receiver_gone",
    "partial_response",
    "history_vanished",
    "empty_success",
    "truncated_result",
)


@dataclass(frozen=True, slots=True)
class ResponseFault:
    """The effect on a whole response."""

    kind: str  # "page": another body; "cut": half the body; "reset": half, then no more
    status: int = 200
    body: str = ""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class Cached(NamedTuple):
    """A response that a front-end cached, and the fault that caused it."""

    fault: Fault
    body: bytes


@dataclass
class AnswerFaults:
    """The faults of one Thanos, and the responses that they have changed."""

    faults: SampleFaults = field(default_factory=lambda: SampleFaults(""))
    stores: Sequence[SimulatedStore] = ()
    but: Fault | None = None  # of the engine's faults the one that is not in force
    _cached: dict[tuple[str, str], bytes] = field(default_factory=dict)

    # -- before anything is evaluated

    def before(self, at: int) -> ResponseFault | None:
        """An answer that does not depend on the question; raises Refused for an error."""
        for kind, page in _PAGES.items():
            for fault in self._met(kind, at):
                self._fire(fault, at, kind)
                return page(fault)
        for fault in self.faults.active("store_hangs", at):
            hit = any(_hit(fault, store) for store in self.stores)
            if hit and at < fault.from_at + whole(fault, "errors_for", 13):
                self._fire(fault, at, "error")
                raise QueryRefused(
                    "execution", f"expanding series: {_deadline(self._first(fault))}"
                )
        return None

    def after(self, at: int) -> ResponseFault | None:
        """The effects on a finished response on its way."""
        for kind, ruin in (("truncated_body", "cut"), ("reset_mid_body", "reset")):
            for fault in self._met(kind, at):
                self._fire(fault, at, kind)
                return ResponseFault(ruin)
        return None

    def _met(self, kind: str, at: int) -> list[Fault]:
        """The faults of a kind that the next request meets."""
        return [
            fault
            for fault in self.faults.active(kind, at)
            if self.faults.count(fault) < (whole(fault, "requests", 1) or 1 << 62)
        ]

    def _fire(self, fault: Fault, at: int, detail: str) -> None:
        self.faults.fire(fault, at, detail)

    # -- results of a query

    def found(
        self,
        found: list[WindowSeries],
        at: int,
        function: str,
        warnings: list[str],
        resolution_ms: int = 0,
    ) -> list[WindowSeries]:
        """The series that reach the querier, before it unites replicas.

        `resolution_ms` is the coarsest resolution that the request allows.
        """
        found = self._after_history(found, at)
        found = self._coarse(found, function, resolution_ms)
        for fault in self.faults.active("store_vanishes", at):
            found = self._without_store(fault, found, at, warnings, "warns_for", 10)
        for fault in self.faults.active("store_hangs", at):
            found = self._without_store(fault, found, at, warnings, "", 0)
        for fault in self.faults.active("receiver_gone", at):
            count = whole(fault, "receivers", 3)
            lost = [s for s in found if _of_receiver(s.label_set, fault, count)]
            found = self._drop(fault, found, lost, at)
        for fault in self.faults.active("partial_response", at):
            lost = [s for s in found if self._is_of_cluster(fault, s) and drawn(fault, s.key)]
            if lost:
                warnings.append(_unavailable(self._first(fault)))
            found = self._drop(fault, found, lost, at)
        return found

    def answered(self, found: list[WindowSeries], at: int) -> list[WindowSeries]:
        """The series that are answered, after replicas were united."""
        for fault in self._met("empty_success", at):
            metric = text(fault, "metric")
            lost = [s for s in found if metric in ("", s.labels.get("__name__"))]
            found = self._drop(fault, found, lost, at)
        for fault in self.faults.active("truncated_result", at):
            found = self._drop(fault, found, found[whole(fault, "series", 10) :], at)
        return found

    def leave_series_alone(self, at: int) -> bool:
        """Whether no fault takes any series out of an answer at this time."""
        return not any(self.faults.active(kind, at) for kind in _TAKE_SERIES)

    def leave_samples_alone(self, at: int) -> bool:
        """Whether answers have all series, with their samples as they were scraped."""
        return self.leave_series_alone(at) and not self.faults.of("downsampled")

    def _drop(
        self, fault: Fault, found: list[WindowSeries], lost: Sequence[WindowSeries], at: int
    ) -> list[WindowSeries]:
        if not lost:
            return found
        self._fire(fault, at, f"{len(lost)} of {len(found)} series")
        gone = {id(series) for series in lost}
        return [series for series in found if id(series) not in gone]

    def _without_store(
        self,
        fault: Fault,
        found: list[WindowSeries],
        at: int,
        warnings: list[str],
        limit: str,
        seconds: int,
    ) -> list[WindowSeries]:
        stores = [store for store in self.stores if _hit(fault, store)]
        lost = [s for s in found if any(store.has(s.labels) for store in stores)]
        if stores and limit and at < fault.from_at + whole(fault, limit, seconds):
            warnings.extend(_unavailable(store) for store in stores)
            if not lost:
                self._fire(fault, at, "a warning")
        return self._drop(fault, found, lost, at)

    def _is_of_cluster(self, fault: Fault, series: WindowSeries) -> bool:
        """Whether a series is of the fault's cluster."""
        if not fault.cluster_id:
            return True
        return any(s.cluster_id == fault.cluster_id and s.has(series.labels) for s in self.stores)

    def _first(self, fault: Fault) -> SimulatedStore | None:
        return next((store for store in self.stores if _hit(fault, store)), None)

    # -- the past that remains

    def _after_history(self, found: list[WindowSeries], at: int) -> list[WindowSeries]:
        for fault in self.faults.active("history_vanished", at):
            edge_ms = fault.from_at * 1000
            kept = []
            for series in found:
                cut = (
                    series.clipped(edge_ms, 1 << 62)
                    if self._is_of_cluster(fault, series)
                    else series
                )
                if len(cut.parts) != len(series.parts) or cut.parts != series.parts:
                    self._fire(fault, at, series.labels.get("__name__", ""))
                if cut.parts or cut.stale_ms:
                    kept.append(cut)
            found = kept
        return found

    def _coarse(
        self, found: list[WindowSeries], function: str, asked_ms: int
    ) -> list[WindowSeries]:
        """A store chooses blocks that are fine enough: where none is, it has nothing."""
        for fault in self.faults.of("downsampled"):
            low, high = fault.from_at * 1000, fault.until_at * 1000
            resolution_ms = whole(fault, "resolution", 300) * 1000
            is_answered = asked_ms >= resolution_ms or whole(fault, "whatever_is_asked", 0)
            changed = []
            for series in found:
                coarse = series
                if self._is_of_cluster(fault, series) and is_answered:
                    coarse = downsampled(series, low, high, resolution_ms, function)
                elif self._is_of_cluster(fault, series):
                    coarse = without(series, low, high)
                if coarse is not series:
                    self._fire(fault, fault.from_at, series.labels.get("__name__", ""))
                if coarse.parts or coarse.stale_ms:
                    changed.append(coarse)
            found = changed
        return found

    # -- the rest

    def of_engine(self, at: int) -> list[Fault]:
        """The faults that make the servers evaluate otherwise; only the answer shows whether."""
        return [*self._active("lookback_overrun", at), *self.newer(at)]

    def lookback_ms(self, usual_ms: int, at: int) -> tuple[int, bool]:
        """The look-back, and whether staleness markers are used."""
        for fault in self._active("lookback_overrun", at):
            return whole(fault, "lookback", 600) * 1000, False
        return usual_ms, True

    def newer(self, at: int) -> list[Fault]:
        """The faults by which the servers are of the next major version."""
        return self._active("engine_upgraded", at)

    def _active(self, kind: str, at: int) -> list[Fault]:
        return [fault for fault in self.faults.active(kind, at) if fault != self.but]

    def cached(self, at: int, request: str, partial: Callable[[Fault], bytes]) -> Cached | None:
        """The response of a front-end that caches partial responses."""
        for fault in self.faults.active("cached_partial", at):
            key = (fault.fault_id, request)
            if key not in self._cached:
                self._cached[key] = partial(fault)
            return Cached(fault, self._cached[key])
        return None

    def differs(self, fault: Fault, at: int, shown: bytes, without: bytes) -> None:
        """Count a fault whose effect is visible in whole answers only."""
        if shown != without:
            self._fire(fault, at, "another answer")

    def unheard(self, but: Fault | None = None) -> AnswerFaults:
        """The same faults, but for one of the engine, for an answer that is only compared with."""
        return replace(self, faults=self.faults.unheard(), but=but)

    def store_errors(self, at: int) -> dict[str, str]:
        """The entry of `/api/v1/stores` for each store that is gone, by address."""
        errors: dict[str, str] = {}
        for kind in ("store_vanishes", "store_hangs"):
            for fault in self.faults.active(kind, at):
                gone = [store for store in self.stores if _hit(fault, store)]
                errors |= {store.address: _reason(store) for store in gone}
                if gone:
                    self._fire(fault, at, "an error of a store")
        return errors


def partly(fault: Fault, found: Sequence[WindowSeries]) -> list[WindowSeries]:
    """The part of the series that an incomplete answer has."""
    return [series for series in found if not drawn(fault, series.key)]


def _hit(fault: Fault, store: SimulatedStore) -> bool:
    replica = whole(fault, "replica", -1)
    return fault.cluster_id in ("", store.cluster_id) and replica in (-1, store.replica)


def _of_receiver(labels: LabelSet, fault: Fault, count: int) -> bool:
    mapping = labels.mapping
    if mapping.get("__name__") in _ALWAYS_WHOLE or "uid" not in mapping:
        return False
    digest = hashlib.sha256(repr(labels.key).encode()).digest()
    return int.from_bytes(digest[:8], "big") % max(1, count) == fault.seed % max(1, count)


# --- the words of a Thanos -----------------------------------------------------------------------


def _labels(store: SimulatedStore | None) -> str:
    pairs = store.external if store else ()
    return "{" + ", ".join(f'{name}="{value}"' for name, value in pairs) + "}"


def _reason(store: SimulatedStore | None) -> str:
    address = store.address if store else "127.0.0.1:10901"
    return (
        "rpc error: code = Unavailable desc = connection error: desc = "
        f'"transport: Error while dialing: dial tcp {address}: connect: connection refused"'
    )


def _unavailable(store: SimulatedStore | None) -> str:
    address = store.address if store else "127.0.0.1:10901"
    return f"fetch series for {_labels(store)} Addr: {address}: {_reason(store)}"


def _deadline(store: SimulatedStore | None) -> str:
    address = store.address if store else "127.0.0.1:10901"
    return (
        f"proxy Series(): rpc error: code = Aborted desc = failed to receive any data from Addr: "
        f"{address} LabelSets: {_labels(store)}: context deadline exceeded"
    )


def _timeout(_: Fault) -> ResponseFault:
    raise QueryRefused("timeout", "query timed out in expression evaluation")


def _unprocessable(_: Fault) -> ResponseFault:
    raise QueryRefused("execution", "expanding series: proxy Series(): context canceled")


def _throttled(fault: Fault) -> ResponseFault:
    after = str(whole(fault, "retry_after", 1))
    return ResponseFault("page", 429, "Too Many Requests\n", headers=(("Retry-After", after),))


def _no_upstream(_: Fault) -> ResponseFault:
    text = "upstream connect error or disconnect/reset before headers. reset reason: overflow"
    return ResponseFault("page", 503, text)


def _login(_: Fault) -> ResponseFault:
    return ResponseFault("page", 200, LOGIN_PAGE, "text/html; charset=utf-8")


_PAGES: dict[str, Callable[[Fault], ResponseFault]] = {
    "timeout": _timeout,
    "unprocessable": _unprocessable,
    "too_many_requests": _throttled,
    "unavailable": _no_upstream,
    "html_login": _login,
}
