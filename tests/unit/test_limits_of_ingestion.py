"""Limits of ingestion: each is reached here, and the excess is reported or dropped, never guessed.

Put here: limits without a test elsewhere.
Not here: sizes of responses and waiting (`test_prometheus_client`), splitting
(`test_thanos_splitting`), pages and events of an API server (`test_collector_client`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from clients.prometheus import CONNECT_SECONDS
from domain.clock import StoppedClock
from domain.decisions.rows import Source
from domain.interval import HOUR, Interval, format_instant
from ingestion.evidence import landing as landing_module
from ingestion.evidence.landing import Landing
from ingestion.kubernetes import journal as journal_module
from ingestion.kubernetes import known_objects, owner_chains
from ingestion.kubernetes.journal_calendar import CATCH_UP_LIMIT, Calendar
from ingestion.settings import Connection
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.decode import SERIES_LIMIT, SeriesDictionary
from ingestion.thanos.outcomes import NAMED_LIMIT
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.query_runner import GIVEN_UP_AFTER, READ_TRIES_LIMIT
from ingestion.thanos.response import read_matrix_body
from tests.samples_by_hand import CLUSTER, TEN, Form, Server, every_ten_minutes, healthy, matrix
from warehouse.manifest import Attempt, Outcome
from warehouse.store import FolderStore

NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)
WINDOW = Interval(TEN, TEN + HOUR)


def pull(home: Path, server: Server) -> Attempt:
    landing = Landing(FolderStore(home / "landing"))
    clock = StoppedClock(TEN + timedelta(days=2))
    return pull_hours(CLUSTER, WINDOW, landing, home / "runs", clock, server.client())


def test_a_silent_server_is_given_up_after_two_queries(tmp_path: Path) -> None:
    def away(form: Form) -> httpx.Response:
        raise httpx.ConnectTimeout("away")

    server = Server(away)
    attempt = pull(tmp_path, server)
    assert attempt.outcome is Outcome.FAILED
    tried = {answer.query for answer in attempt.answers if answer.tries}
    assert 1 <= len(tried) <= GIVEN_UP_AFTER
    rest = {answer.reason for answer in attempt.answers if not answer.tries}
    assert rest == {f"not queried: {GIVEN_UP_AFTER} requests before it got no answer"}


def test_a_truncated_body_is_requested_three_times(tmp_path: Path) -> None:
    def cut(form: Form) -> httpx.Response:
        if not form["query"].startswith("up"):
            return healthy(form)
        return httpx.Response(200, headers={"content-type": "application/json"}, content=b'{"st')

    server = Server(cut)
    assert pull(tmp_path, server).outcome is Outcome.DEGRADED
    assert sum(form["query"].startswith("up") for form in server.forms) == READ_TRIES_LIMIT == 3


def test_a_reason_names_three_metrics_and_marks_the_others(tmp_path: Path) -> None:
    """The second response has only the sentinels."""
    lasting = [
        "kube_node_status_capacity",
        "kube_pod_container_resource_requests",
        "kube_pod_info",
        "kube_pod_owner",
        "kube_pod_status_phase",
    ]
    lost = False

    def answer(form: Form) -> httpx.Response:
        found = [
            ({"__name__": name, "uid": f"u{number}"}, every_ten_minutes("1"))
            for name in lasting
            if name in form["query"] and "_over_time" not in form["query"]
            for number in range(1 if lost else 2)
        ]
        return matrix(*found) if found and "[" in form["query"] else healthy(form)

    pull(tmp_path, Server(answer))
    lost = True
    [hour] = pull(tmp_path, Server(answer)).hours
    assert hour.outcome is Outcome.DEGRADED
    assert sum(name in hour.reason for name in lasting) == NAMED_LIMIT == 3
    assert hour.reason.endswith(" and others")


def test_one_request_is_sent_at_a_time(tmp_path: Path) -> None:
    """A querier also serves the dashboards of other users."""
    under_way: list[Form] = []
    most: list[int] = []

    def counting(form: Form) -> httpx.Response:
        under_way.append(form)
        most.append(len(under_way))
        response = healthy(form)
        under_way.remove(form)
        return response

    assert pull(tmp_path, Server(counting)).outcome is Outcome.OK
    assert max(most) == 1


def test_the_time_to_connect_is_limited() -> None:
    made: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        made.append(request)
        return httpx.Response(200, stream=httpx.ByteStream(b""))

    long = Connection("https://hub.test", timeout_seconds=300)
    with AttemptClient(long, httpx.MockTransport(answer)) as client:
        client.get("/")
    timeout = made[0].extensions["timeout"]
    assert (timeout["connect"], timeout["read"]) == (CONNECT_SECONDS, 300) == (10, 300)


def test_the_dictionary_of_labels_is_cleared_at_its_limit() -> None:
    assert SERIES_LIMIT == 100_000
    dictionary = SeriesDictionary([], limit=3)
    for number in range(20):
        raw = matrix(({"__name__": "up", "n": str(number)}, [(1, "1")])).content
        [place] = dictionary.numbers(read_matrix_body(raw).series)
        assert place <= 3
        assert dictionary.series(place).labels == {"n": str(number)}


def test_only_a_limited_number_of_latest_attempts_is_read(tmp_path: Path) -> None:
    for _ in range(3):
        pull(tmp_path, Server(healthy))
    landing = Landing(FolderStore(tmp_path / "landing"))
    latest = landing.latest_attempts("c1", Source.THANOS, limit=2)
    assert [attempt.sequence for attempt in latest] == [3, 2]
    assert landing_module.LATEST_LIMIT == 50


def test_a_body_above_the_landing_limit_is_refused_on_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = Landing(FolderStore(tmp_path))
    digest = landing.land_body(b"x" * 1000).sha256
    assert landing_module.BODY_BYTES_LIMIT == 1 << 30
    monkeypatch.setattr(landing_module, "BODY_BYTES_LIMIT", 999)
    with pytest.raises(landing_module.BodyChanged, match="it claims 1000 bytes, at most 999"):
        landing.read_body(digest)


def test_the_number_of_segments_of_an_hour_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path)
    monkeypatch.setattr(journal_module, "SEGMENTS_PER_HOUR_LIMIT", 3)
    journal = journal_module.JournalWriter(store, "c1", "one", "0.1.0")
    journal.add([{"line": "broken", "at": format_instant(NOON)}])
    for sequence in range(1, 5):  # taken by another writer meanwhile
        store.create(journal_module.segment_key("c1", NOON, sequence), b"of another collector")
    journal._sequences = {NOON: 1}
    with pytest.raises(journal_module.SegmentDamaged, match="more than 3 segments in one hour"):
        journal.flush(NOON)
    assert journal.pending_count == 1


def test_the_oldest_owners_and_tombstones_are_dropped_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner_chains, "OWNERS_LIMIT", 3)
    monkeypatch.setattr(known_objects, "TOMBSTONES_LIMIT", 3)
    known = owner_chains.OwnerChains()
    graves: dict[str, int] = {}
    for number in range(5):
        known.note_owner(f"o{number}", {})
        known_objects.note_uid(graves, f"p{number}", number)
    assert list(known.owners) == ["o2", "o3", "o4"]
    assert graves == {"p2": 2, "p3": 3, "p4": 4}


def test_a_chain_of_owners_has_a_limit_and_a_cycle_ends() -> None:
    """Users write owner references: they can form a cycle, or an endless chain."""
    known = owner_chains.OwnerChains()

    def owned(number: int, above: int) -> None:
        owner = {"kind": "Job", "name": f"j{above}", "uid": f"o{above}"}
        known.note_owner(f"o{number}", {"kind": "Job", "metadata": {"owner": owner}})

    owned(0, 1)
    owned(1, 0)
    assert known.next_unknown({"uid": "o0"}) == {}
    for number in range(owner_chains.CHAIN_LIMIT):
        owned(number, number + 1)
    assert known.next_unknown({"uid": "o0"}) == {}
    assert known.of_pod({"metadata": {"owner": {"uid": "o0"}}})["workload_name"] == "j9"


def test_after_a_long_absence_only_a_month_of_hours_is_closed() -> None:
    calendar = Calendar()
    calendar.reach(NOON)
    calendar.reach(NOON + timedelta(days=100))
    assert calendar.open_hours[0] == NOON + timedelta(days=100) - CATCH_UP_LIMIT
    assert len(calendar.open_hours) == CATCH_UP_LIMIT // HOUR + 1 == 31 * 24 + 1
