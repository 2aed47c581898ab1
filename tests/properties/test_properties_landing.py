"""Landing and pulling are correct for any bytes, any order, any division of time.

Put here: round trips, permutations, window equivalence, replays.
Not here: the decoder alone (`test_properties_decoder`), kill points (`tests/unit`).
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from hypothesis import given
from hypothesis import strategies as st

from domain.clock import StoppedClock
from domain.decisions.rows import Source
from domain.interval import HOUR, Interval
from ingestion.evidence.landing import Landing
from ingestion.rebuild import rebuild
from ingestion.thanos.pull import pull_hours
from tests.derived_rows import rows_landed
from tests.samples_by_hand import CLUSTER, START, TEN, Form, Server, matrix
from warehouse.manifest import Attempt, AttemptDraft, Hour, Outcome, QueryResponse, Sampling
from warehouse.store import FolderStore

texts = st.text(max_size=40)
with_halves_of_letters = st.text(st.characters(exclude_categories=()), max_size=40)
counts = st.integers(0, 10**12)
instants = st.integers(0, 10**6).map(lambda second: TEN + timedelta(seconds=second))
hexes = st.binary(min_size=32, max_size=32).map(bytes.hex)

answers = st.builds(
    QueryResponse,
    ask=texts,
    query=texts,
    status=st.integers(0, 599),
    sha256=hexes,
    byte_count=counts,
    stored_byte_count=counts,
    warnings=st.lists(texts, max_size=3).map(tuple),
    outcome=st.sampled_from(Outcome),
    reason=texts,
    window=st.none() | instants.map(lambda at: Interval(at, at + HOUR)),
    tries=st.integers(0, 5),
)
hours = st.builds(
    Hour,
    hour=instants,
    outcome=st.sampled_from(Outcome),
    reason=texts,
    series_count=counts,
    sample_count=counts,
    by_metric=st.dictionaries(texts, st.tuples(counts, counts), max_size=3),
    facts=st.dictionaries(texts, st.integers(-(10**9), 10**9), max_size=3),
)
drafts = st.builds(
    AttemptDraft,
    cluster_id=st.sampled_from(["a", "b"]),
    source=st.sampled_from(Source),
    asked_at=instants,
    answered_at=instants,
    window=instants.map(lambda at: Interval(at, at + HOUR)),
    code_version=texts,
    sampling=st.builds(Sampling, st.integers(1, 3600), st.integers(1, 3600)),
    answers=st.lists(answers, max_size=3).map(tuple),
    hours=st.lists(hours, max_size=3).map(tuple),
    facts=st.dictionaries(texts, st.integers(-(10**9), 10**9), max_size=3),
    settings=st.dictionaries(texts, st.lists(texts, max_size=2).map(tuple), max_size=2),
)


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@given(drafts, st.integers(1, 10**9), hexes)
def test_any_manifest_reads_back_as_it_was_written(
    draft: AttemptDraft, sequence: int, previous: str
) -> None:
    attempt = draft.at(sequence, previous)
    assert Attempt.from_bytes(attempt.to_bytes()) == attempt


@given(drafts, st.dictionaries(with_halves_of_letters, counts, max_size=5), with_halves_of_letters)
def test_a_manifest_is_written_as_the_standard_library_writes_it(
    draft: AttemptDraft, facts: dict[str, int], version: str
) -> None:
    """The chain contains its hash, and a later verifier may not have our libraries."""
    body = replace(draft, facts=facts, code_version=version).at(1, "").to_bytes()
    value = json.loads(body)
    assert (value["facts"], value["code_version"]) == (facts, version)
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert body == text.encode("utf-8", "surrogatepass") + b"\n"


@given(st.binary(max_size=5000))
def test_any_bytes_can_be_landed_and_read(body: bytes) -> None:
    with folder() as home:
        landing = Landing(FolderStore(home))
        assert landing.read_body(landing.land_body(body).sha256) == body


@given(st.lists(drafts, max_size=6))
def test_chains_are_valid_for_any_mixture_of_writers(found: list[AttemptDraft]) -> None:
    with folder() as home:
        for number, draft in enumerate(found):
            writer = Landing(FolderStore(home))  # a new process each time
            attempt = writer.append_attempt(draft)
            same = [
                d
                for d in found[:number]
                if (d.cluster_id, d.source) == (draft.cluster_id, draft.source)
            ]
            assert attempt.sequence == len(same) + 1
        report = Landing(FolderStore(home)).verify()
        assert [problem for problem in report.problems if "manifests" in problem.where] == []
        assert report.attempt_count == len(found)


# A small cluster over four hours: each series has a start, an end, a gap and its own value.
lives = st.lists(
    st.tuples(
        st.sampled_from(["kube_pod_container_resource_requests", "kube_pod_status_phase"]),
        st.integers(0, 5),  # pod
        st.integers(-1, 25),  # first sample, in steps of ten minutes after ten o'clock
        st.integers(0, 26),  # number of samples
        st.integers(0, 25),  # the missing sample
        st.sampled_from(["0", "1", "2"]),
        st.sampled_from(["0", "1"]),  # replica
    ),
    max_size=10,
    unique_by=lambda life: (life[0], life[1], life[6]),
)


def answering(found: list[Any], order: random.Random) -> Server:
    """A store with these series that returns the samples of a range, in any order of series."""

    def answer(form: Form) -> httpx.Response:
        if "[" not in form["query"] or "start" in form:
            return httpx.Response(404, json={})
        until = int(form["time"])
        since = until - int(form["query"].rsplit("[", 1)[1].rstrip("s]"))
        series = []
        for metric, pod, first, count, missing, value, replica in found:
            if metric not in form["query"]:
                continue
            times = [START + 600 * (first + n) for n in range(count) if n != missing]
            samples = [(second, value) for second in times if since <= second <= until]
            if samples:
                labels = {"__name__": metric, "uid": f"u{pod}", "replica": replica}
                series.append((labels, samples))
        order.shuffle(series)
        return matrix(*series)

    return Server(answer)


def pulled(home: Path, found: list[Any], windows: list[Interval], seed: int) -> list[Any]:
    landing = Landing(FolderStore(home / "landing"))
    for window in windows:
        client = answering(found, random.Random(seed)).client()
        clock = StoppedClock(TEN + timedelta(days=2))
        pull_hours(CLUSTER, window, landing, home / "runs", clock, client)
    return rows(home)


def rows(home: Path) -> list[Any]:
    found = []
    for row in rows_landed(Landing(FolderStore(home / "landing")), home / "runs", "c1", "runs"):
        row.pop("attempt_id")
        found.append(json.dumps(row, default=str, sort_keys=True))
    return sorted(found)


def windows(*lengths: int) -> list[Interval]:
    edges = [TEN + sum(lengths[:n]) * HOUR for n in range(len(lengths) + 1)]
    return [Interval(a, b) for a, b in pairwise(edges)]


@given(lives, st.sampled_from([(1, 1, 1, 1), (2, 2), (3, 1), (1, 3)]))
def test_hours_queried_alone_or_together_give_the_same_runs(
    found: list[Any], lengths: tuple[int, ...]
) -> None:
    with folder() as together, folder() as apart:
        whole = pulled(together, found, windows(4), seed=1)
        assert pulled(apart, found, windows(*lengths), seed=1) == whole


@given(lives, st.integers(2, 1000))
def test_the_order_of_series_changes_no_byte_of_the_runs(found: list[Any], seed: int) -> None:
    with folder() as one, folder() as other:
        assert pulled(one, found, windows(2), 1) == pulled(other, found, windows(2), seed)


@given(lives)
def test_a_second_pull_and_a_rebuild_give_the_same_bytes(
    found: list[Any],
) -> None:
    with folder() as home:
        first = pulled(home, found, windows(2), 1)
        bodies = FolderStore(home / "landing").list("objects/")
        assert pulled(home, found, windows(2), 1) == sorted(first * 2)
        assert FolderStore(home / "landing").list("objects/") == bodies
        before = {p.name: p.read_bytes() for p in (home / "runs").rglob("*.parquet")}
        rebuild(Landing(FolderStore(home / "landing")), home / "runs")
        assert before == {p.name: p.read_bytes() for p in (home / "runs").rglob("*.parquet")}
