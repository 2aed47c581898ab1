"""Closing, correcting, amending, voiding and restoring in any order, killed at any point.

Checks invariants 27, 28, 31, 32, 34, 35, 38 and 47. Lines add up; documents add up to the period;
the original plus corrections is the recalculated truth; no credit exceeds its line; an issued
document never changes; the chain is valid; numbers have no gaps; a period that did not pass its
check is neither issued nor corrected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from billing.books import LedgerDocuments
from billing.close import commit_close, plan_from
from billing.corrections import billed_so_far, remaining_nanos
from billing.documents_folder import document_bundle, period_bundle
from billing.events import DocumentStatus, EventKind
from billing.gate import PeriodNotBillable
from billing.guard import KnownHeadMissing, RestoredRecord, mark_restored, release_restored
from billing.invoice import read_lines
from billing.record import Record, RecordChangedConcurrently, event_key, sealed_key
from billing.recount import commit_corrections, corrections_from
from billing.rendering.focus import cost_and_usage
from billing.usage import ChargeKey
from billing.verifier import verify
from billing.voiding import CannotBeVoided, commit_void, require_voidable
from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.findings import Check, CheckResult, Finding, Remedy
from domain.money import parse_nanos
from tests.billing_by_hand import (
    AMENDED,
    PRICE,
    Price,
    Seconds,
    basis_of,
    checked,
    grounds_of,
    usage_of,
)
from tests.store_in_memory import Killed, MemoryStore
from warehouse.lease import LEASE_KEY, LEASE_SECONDS

TENANTS = ("a", "b", "c")
WEIGHTS = (Fraction(1), Fraction(3, 7), Fraction(1, 3))
PERIODS = [BillingPeriod(f"2026-{month:02}") for month in range(1, 5)]
START = datetime(2026, 6, 1, tzinfo=UTC)
FILES = {"verifier.py": b"# rendering hundreds of documents would take long\n"}

amounts: st.SearchStrategy[Seconds] = st.dictionaries(
    st.tuples(st.sampled_from(TENANTS), st.sampled_from(WEIGHTS)), st.integers(0, 10**7)
)


NOT_BILLABLE = {
    "a blocking finding": lambda checked: replace(checked, findings=(blocking_finding(),)),
    "a check that failed": lambda checked: replace(checked, checks=(Check("by hand", 1, 1),)),
    "a check that saw no row": lambda checked: replace(checked, checks=(Check("by hand", 0, 0),)),
    "a check that was not executed": lambda checked: replace(checked, missing_checks=("suite",)),
}


def blocking_finding() -> Finding:
    return Finding(
        "GAP-001", "hour_not_measured", "c1", "nothing", "why", "pull", True, Remedy.CORRECT
    )


class Ledger:
    """The three commits on one store, combined as in the commands."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.clock = StoppedClock(START)

    @property
    def books(self) -> LedgerDocuments:
        record = Record(self.store)
        return LedgerDocuments(record, record.ledger())

    def close(
        self, period: BillingPeriod, seconds: Seconds, check_result: CheckResult | None = None
    ) -> None:
        books = self.books
        if period.name not in books.ledger.closes():
            grounds = grounds_of(period, seconds, check_result)
            plan = plan_from(books, grounds, self.clock.now())
            commit_close(books, period, plan, self.clock, "ada", FILES)

    def recount(
        self,
        period: BillingPeriod,
        seconds: Seconds,
        price: Price = PRICE,
        check_result: CheckResult | None = None,
    ) -> int:
        """The number of correction lines from the recount."""
        books, basis = self.books, basis_of(period, "1" * 64, check_result)
        lines = corrections_from(books, basis, usage_of(period, seconds, price), lambda _: "late")
        if lines:
            commit_corrections(books, basis, lines, "late", (), self.clock, "ada")
        return len(lines)

    def void(self, number: str) -> None:
        require_voidable(self.books, number)
        commit_void(self.books, number, "wrong", self.clock, "ada", lambda _: FILES)

    def restored(self, copy: dict[str, bytes]) -> Record:
        """The record of a backup, restored in place of this one; not yet writable."""
        head = Record(MemoryStore(dict(copy))).head()
        record = Record(MemoryStore())
        mark_restored(record, head, self.clock.now())
        for key, body in copy.items():
            if key != LEASE_KEY:
                record.store.create(key, body)
        return record


def truth_of(period: BillingPeriod, seconds: Seconds, price: Price = PRICE) -> dict[ChargeKey, int]:
    return {charge.key: charge.cost_nanos for charge in usage_of(period, seconds, price).charges}


class Months(RuleBasedStateMachine):
    """Four months and random operations on them, in any order."""

    @initialize()
    def begin(self) -> None:
        self.ledger = Ledger(MemoryStore())
        self.truth: defaultdict[str, defaultdict[ChargeKey, int]] = defaultdict(
            lambda: defaultdict(int)
        )
        self.counted: dict[str, Seconds] = {}
        self.seen: dict[str, bytes] = {}
        self.backups: list[dict[str, bytes]] = []

    @rule(period=st.sampled_from(PERIODS), seconds=amounts)
    def close(self, period: BillingPeriod, seconds: Seconds) -> None:
        if period.name not in self.counted:
            self.counted[period.name] = seconds
            self.truth[period.name].update(truth_of(period, seconds))
        self.ledger.close(period, seconds)

    @rule(period=st.sampled_from(PERIODS), seconds=amounts, why=st.sampled_from([*NOT_BILLABLE]))
    def checked_not_billable(self, period: BillingPeriod, seconds: Seconds, why: str) -> None:
        """Neither a close nor a recount writes to the record."""
        no = NOT_BILLABLE[why](checked(period))
        before = dict(self.ledger.store.objects)
        if period.name not in self.counted:
            with pytest.raises(PeriodNotBillable):
                self.ledger.close(period, seconds, no)
        elif seconds != self.counted[period.name]:
            with suppress(PeriodNotBillable):  # without a correction there is no refusal
                assert self.ledger.recount(period, seconds, check_result=no) == 0
        events = [key for key in self.ledger.store.objects if key not in before]
        assert events == []

    @precondition(lambda self: self.counted)
    @rule(data=st.data(), seconds=amounts, price=st.sampled_from([PRICE, AMENDED]))
    def recount(self, data: st.DataObject, seconds: Seconds, price: Price) -> None:
        """A recount after late evidence or an amended price."""
        period = BillingPeriod(data.draw(st.sampled_from(sorted(self.counted))))
        self.ledger.recount(period, seconds, price)
        self.counted[period.name] = seconds
        self.truth[period.name] = defaultdict(int, truth_of(period, seconds, price))
        # A second recount gives no corrections.
        assert self.ledger.recount(period, seconds, price) == 0

    @precondition(lambda self: self.backups)
    @rule(data=st.data(), by_head=st.booleans())
    def restore(self, data: st.DataObject, by_head: bool) -> None:
        """The head reveals a backup that lacks an event; a complete backup can be continued."""
        attested = Record(self.ledger.store).head()
        record = self.ledger.restored(data.draw(st.sampled_from(self.backups[-3:])))
        with pytest.raises(RestoredRecord):
            release_restored(record, self.ledger.clock, names=("ada", "ada"))
        if record.head() != attested:
            with pytest.raises(KnownHeadMissing):
                release_restored(record, self.ledger.clock, attested=attested)
            return
        named = {"attested": attested} if by_head else {"names": ("ada", "bob")}
        release_restored(record, self.ledger.clock, **named)  # type: ignore[arg-type]
        assert isinstance(record.store, MemoryStore)
        self.ledger.store = record.store

    @precondition(lambda self: self.ledger.books.ledger.documents())
    @rule(data=st.data())
    def void(self, data: st.DataObject) -> None:
        books = self.ledger.books
        number = data.draw(st.sampled_from([d.number for d in books.ledger.documents()]))
        status = books.ledger.status(number)
        is_void = number in books.ledger.voided_by().values()
        lines = read_lines(books.document(number))
        asked: defaultdict[tuple[str, ChargeKey], int] = defaultdict(int)
        for line in lines:
            asked[line.charge_period, line.key.charge] += line.cost_nanos
        pending = books.pending_lines(books.ledger.pending_corrections())
        withdrawn = [line for line in pending if line.refers_to == number]
        left = {name: truth.copy() for name, truth in self.truth.items()}
        for line in withdrawn:
            left[line.charge_period][line.key] -= line.cost_nanos
        given_back = any(
            nanos > max(0, left[name][key] + left[name][replace(key, credited=True)])
            for (name, key), nanos in asked.items()
        )
        if is_void or status is DocumentStatus.VOIDED or given_back:
            with pytest.raises(CannotBeVoided):
                self.ledger.void(number)
            return
        for line in (*lines, *withdrawn):
            self.truth[line.charge_period][line.key] -= line.cost_nanos
        self.ledger.void(number)

    @invariant()
    def what_was_billed_is_the_truth(self) -> None:
        books = self.ledger.books
        for name, truth in self.truth.items():
            billed = billed_so_far(books.lines(), BillingPeriod(name))
            found = {key: one.nanos for key, one in billed.items() if one.nanos}
            assert found == {key: nanos for key, nanos in truth.items() if nanos}
            assert all(remaining_nanos(billed, key.charge) >= 0 for key in billed)

    @invariant()
    def the_record_holds_and_nothing_in_it_ever_changes(self) -> None:
        record = Record(self.ledger.store)
        assert record.verify() == []
        for key, body in self.seen.items():
            assert self.ledger.store.objects[key] == body
        if record.events():
            self.backups.append(dict(self.ledger.store.objects))
        for event in record.events():
            self.seen[event_key(event.sequence)] = event.to_bytes()
            for digest in event.sealed_sha256s():
                self.seen[sealed_key(digest)] = record.sealed_bytes(digest)

    @invariant()
    def what_was_written_was_checked_billable_by_checks_that_saw_rows(self) -> None:
        record = Record(self.ledger.store)
        for event in record.events():
            if event.kind in (EventKind.PERIOD_CLOSED, EventKind.CORRECTIONS_RECORDED):
                found = record.sealed(str(event.body["basis_sha256"]))["check"]
                assert found["is_billable"]
                assert found["missing_checks"] == []
                assert not any(finding["blocks"] for finding in found["findings"])
                assert found["checks"]
                for check in found["checks"]:
                    assert check["evaluated_row_count"] > 0 == check["failed_row_count"]

    @invariant()
    def documents_add_up_in_every_form(self) -> None:
        books = self.ledger.books
        for issued in books.ledger.documents():
            document = books.document(issued.number)
            billed = [parse_nanos(line["billed_cost"]) for line in document["lines"]]
            total = parse_nanos(document["total_billed_cost"])
            assert sum(billed) == total
            rows = list(cost_and_usage(document))
            payable = sum(Decimal(row["BilledCost"]) for row in rows)
            assert payable == Decimal(document["total_payable"])
            assert parse_nanos(document["tax"]["amount"]) == payable * 10**9 - total
            exact = sum(parse_nanos(line["cost"]) for line in document["lines"])
            assert parse_nanos(document["total_cost"]) == exact
            for line, cents in zip(document["lines"], billed, strict=True):
                assert abs(parse_nanos(line["cost"]) - cents) < 10**7

    def teardown(self) -> None:
        """The stand-alone verifier accepts all issued documents."""
        record = Record(self.ledger.store)
        ledger = record.ledger()
        for close in ledger.closes().values():
            assert verify(period_bundle(record, ledger, close, FILES)).problems == []
        for issued in ledger.documents():
            assert verify(document_bundle(record, ledger, issued, FILES)).problems == []


TestMonths = Months.TestCase
TestMonths.settings = settings(
    stateful_step_count=10,
    suppress_health_check=[HealthCheck.filter_too_much],
)

SECONDS: dict[str, Seconds] = {
    "2026-01": {(t, w): 1000 * n + 1 for n, t in enumerate(TENANTS) for w in WEIGHTS},
    "2026-02": {(t, Fraction(1)): 77_777 for t in TENANTS},
}
LATE: Seconds = {(t, w): 2000 * n + 7 for n, t in enumerate(TENANTS) for w in WEIGHTS}
STORY: list[Callable[[Ledger], Any]] = [
    lambda ledger: ledger.close(PERIODS[0], SECONDS["2026-01"]),
    lambda ledger: ledger.recount(PERIODS[0], LATE),
    lambda ledger: ledger.close(PERIODS[1], SECONDS["2026-02"]),
    lambda ledger: _void_once(ledger, "INV-000002"),
    lambda ledger: ledger.close(PERIODS[2], {}),
]


def _void_once(ledger: Ledger, number: str) -> None:
    """Void again after a kill, like a person who repeats the command."""
    try:
        ledger.void(number)
    except CannotBeVoided:
        assert ledger.books.ledger.status(number) is DocumentStatus.VOIDED


def run_story(kill_at: int = -1) -> tuple[MemoryStore, bool]:
    """Run the steps of the scenario; after a kill, repeat the interrupted step later."""
    store = MemoryStore(kill_at=kill_at)
    ledger, killed = Ledger(store), False
    for step in STORY:
        try:
            step(ledger)
        except Killed:
            killed = True
            store.kill_at = -1
            # The lease of a dead process expires.
            ledger.clock.instant += timedelta(seconds=LEASE_SECONDS)
            step(ledger)
    return store, killed


def issued_in(store: MemoryStore) -> list[tuple[str, str, str]]:
    """(number, tenant, total) of every document, in order."""
    record = Record(store)
    books = LedgerDocuments(record, record.ledger())
    found = []
    for issued in books.ledger.documents():
        document = books.document(issued.number)
        found.append((issued.number, document["tenant"], document["total_billed_cost"]))
    return found


def kill_points() -> int:
    return run_story()[0].points


def test_killed_at_any_point_nothing_is_issued_twice_or_lost() -> None:
    whole = run_story()[0]
    expected = issued_in(whole)
    kinds = [event.kind for event in Record(whole).events()]
    assert len(expected) == 3 + 3 + 1
    assert kinds.count(EventKind.PERIOD_CLOSED) == 3
    points = kill_points()
    assert points > 50
    for point in range(points):
        store, killed = run_story(kill_at=point)
        assert killed, point
        assert issued_in(store) == expected, point
        record = Record(store)
        assert record.verify() == [], point
        assert [event.kind for event in record.events()] == kinds, point


@pytest.mark.deep
@pytest.mark.parametrize("tenants", [75])
def test_a_close_of_many_tenants_killed_at_hundreds_of_points(tenants: int) -> None:
    seconds: Seconds = {(f"t{n:03}", Fraction(1)): 1000 + n for n in range(tenants)}

    def close(kill_at: int = -1) -> MemoryStore:
        store = MemoryStore(kill_at=kill_at)
        ledger = Ledger(store)
        try:
            ledger.close(PERIODS[0], seconds)
        except Killed:
            store.kill_at = -1
            ledger.clock.instant += timedelta(seconds=LEASE_SECONDS)
            ledger.close(PERIODS[0], seconds)
        return store

    expected = issued_in(whole := close())
    assert len(expected) == tenants
    assert whole.points > 2 * tenants
    for point in range(whole.points):
        store = close(point)
        assert issued_in(store) == expected, point
        assert len(Record(store).events()) == 1, point


def test_two_closes_at_once_give_one_result() -> None:
    """Both plan before either writes; the second finds the period closed and adds nothing."""
    store = MemoryStore()
    ledger = Ledger(store)
    books = ledger.books
    plan = plan_from(books, grounds_of(PERIODS[0], LATE), START)
    commit_close(books, PERIODS[0], plan, ledger.clock, "ada", FILES)
    commit_close(books, PERIODS[0], plan, ledger.clock, "bob", FILES)
    assert len(Record(store).events()) == 1


def test_a_plan_for_an_older_record_is_not_used() -> None:
    ledger = Ledger(MemoryStore())
    books = ledger.books
    plan = plan_from(books, grounds_of(PERIODS[1], LATE), START)
    ledger.close(PERIODS[0], SECONDS["2026-01"])
    with pytest.raises(RecordChangedConcurrently):
        commit_close(books, PERIODS[1], plan, ledger.clock, "bob", FILES)
    ledger.close(PERIODS[1], LATE)
    assert Record(ledger.store).verify() == []
