"""Pulls of two clusters at a time land the same evidence as one by one, and no error is lost.

Put here: parallel pulls, their order and their end.
Not here: which hours are pulled (`test_steps_evidence`), a single pull (`test_thanos_pull`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.clock import StoppedClock
from domain.decisions import Source
from domain.errors import LedgerError
from domain.interval import HOUR, Interval
from fake_gpu.clock import VirtualClock
from fake_gpu.scenario.load import read_scenario
from fake_gpu.serve import serve
from orchestration import pull_windows, steps
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome
from orchestration.pull_windows import CLUSTERS_AT_ONCE, PullWindow
from orchestration.pull_windows import pull_windows as pull_all
from warehouse.home import Home
from warehouse.manifest import Outcome
from warehouse.store import KeyNotAllowed, ObjectMissing

FIRST = datetime(2026, 10, 5, tzinfo=UTC)
PATIENCE_SECONDS = 30.0
FLEET = """
name: several
story: Two days of three clusters, one of which has cards of another maker.
seed: 12
from: 2026-10-05T00:00:00Z
until: 2026-10-07T00:00:00Z
clusters:
  - name: near
    monitoring: {scrape_interval: 5m}
    nodes: [{name: a100, product: NVIDIA-A100-SXM4-80GB, cards: 2}]
    workloads: [{name: serve, namespace: chat, replicas: 2, requests: 1, lifetime: ~9h}]
  - name: far
    monitoring: {scrape_interval: 5m, prometheus_replicas: 2}
    nodes: [{name: t4, product: Tesla-T4, cards: 1}]
    workloads: [{name: serve, namespace: chat, replicas: 1, requests: 1}]
  - name: idle
    monitoring: {scrape_interval: 5m}
    nodes: [{name: t4, product: Tesla-T4, cards: 1}]
"""


class RecordingPull:
    """A stand-in for `pull_window` that records parallel calls, and blocks until a
    condition holds.
    """

    def __init__(self, until: Callable[[str, int], bool] = lambda *_: True) -> None:
        self.begun: list[str] = []
        self.beside: list[frozenset[str]] = []
        self.errors: dict[str, BaseException] = {}
        self._busy: list[str] = []
        self._changed = threading.Condition()
        self._until = until

    def __call__(
        self, _: OpenHome, cluster_id: str, source: Source, window: Interval, memory: object
    ) -> object:
        name = f"{cluster_id}{window.started_at:%d}"
        with self._changed:
            self.begun.append(name)
            self._busy.append(cluster_id)
            assert self._busy.count(cluster_id) == 1
            self.beside.append(frozenset(self._busy))
            self._changed.notify_all()
            met = self._changed.wait_for(
                lambda: self._until(name, len(self.begun)), PATIENCE_SECONDS
            )
            self._busy.remove(cluster_id)
            self._changed.notify_all()
        assert met
        if name in self.errors:
            raise self.errors[name]
        return name

    def is_free(self, cluster_id: str) -> bool:
        return cluster_id not in self._busy


def wanted(names: str) -> list[PullWindow]:
    """`a5 a6 b5` are windows of clusters and days."""
    return [
        PullWindow(name[0], Source.KUBERNETES, _day(int(name[1:])), name) for name in names.split()
    ]


def _day(number: int) -> Interval:
    start = datetime(2026, 10, number, tzinfo=UTC)
    return Interval(start, start + HOUR)


def pull_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: RecordingPull, names: str
) -> Sequence[object]:
    monkeypatch.setattr(pull_windows, "pull_window", stand_in)
    home = Home.create(tmp_path / "home", "")
    return pull_all(OpenHome(home, StoppedClock(FIRST)), wanted(names))


def test_two_clusters_are_pulled_at_once_with_one_window_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first window blocks until two windows of the second cluster have started.
    stand_in = RecordingPull(lambda name, begun: name != "a05" or begun >= 3)
    found = pull_with(tmp_path, monkeypatch, stand_in, "a5 a6 b5 b6 b7 c5")
    assert found == ["a05", "a06", "b05", "b06", "b07", "c05"]
    assert stand_in.begun[:3] == ["a05", "b05", "b06"]
    assert max(len(names) for names in stand_in.beside) == CLUSTERS_AT_ONCE == 2
    for cluster_id in "abc":
        mine = [name for name in stand_in.begun if name[0] == cluster_id]
        assert mine == sorted(mine)


def test_windows_are_pulled_in_the_order_of_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The live hours of all clusters are due before older hours of any."""
    stand_in = RecordingPull()
    pull_with(tmp_path, monkeypatch, stand_in, "a9 b9 c9 a5 b5 c5")
    assert {name[1:] for name in stand_in.begun[:2]} == {"09"}
    assert stand_in.begun.index("c09") < stand_in.begun.index("c05")


def test_an_error_ends_only_the_pulls_of_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = RecordingPull(lambda name, begun: name != "b05" or begun >= 3)
    stand_in.errors = {"c05": KeyNotAllowed("later"), "b05": KeyNotAllowed("first")}
    with pytest.raises(LedgerError, match="first"):
        pull_with(tmp_path, monkeypatch, stand_in, "a5 a6 b5 b6 c5 c6 d5")
    assert sorted(stand_in.begun) == ["a05", "a06", "b05", "c05", "d05"]


def test_with_an_error_list_the_successful_windows_are_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = RecordingPull()
    stand_in.errors = {"c05": KeyNotAllowed("later"), "b05": KeyNotAllowed("first")}
    monkeypatch.setattr(pull_windows, "pull_window", stand_in)
    errors: list[LedgerError] = []
    opened = OpenHome(Home.create(tmp_path / "home", ""), StoppedClock(FIRST))
    found = pull_all(opened, wanted("a5 b5 b6 c5 d5"), errors=errors)
    assert found == ["a05", "d05"]
    assert errors == [stand_in.errors["b05"], stand_in.errors["c05"]]


@pytest.mark.parametrize("trouble", [ZeroDivisionError("ours"), KeyboardInterrupt()])
def test_an_unexpected_exception_starts_no_further_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: BaseException
) -> None:
    """The parallel window ends normally; its evidence is landed completely."""
    # No other window ends before the exception.
    stand_in = RecordingPull(
        lambda name, begun: begun >= 2 and (name == "a05" or stand_in.is_free("a"))
    )
    stand_in.errors = {"a05": trouble}
    with pytest.raises(type(trouble)):
        pull_with(tmp_path, monkeypatch, stand_in, "a5 a6 b5 c5 c6")
    assert set(stand_in.begun) <= {"a05", "b05", "c05"}


def test_progress_is_reported_by_the_calling_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[int, int, str]] = []
    tellers: set[int] = set()

    def hear(done: int, total: int, words: str) -> None:
        heard.append((done, total, words))
        tellers.add(threading.get_ident())

    monkeypatch.setattr(pull_windows, "pull_window", RecordingPull())
    home = Home.create(tmp_path / "home", "")
    pull_all(OpenHome(home, StoppedClock(FIRST)), wanted("a5 a6 b5"), hear)
    assert tellers == {threading.get_ident()}
    assert [done for done, _, _ in heard] == sorted(done for done, _, _ in heard)
    assert heard[-1] == (3, 3, "")
    assert sorted(words for _, _, words in heard[:-1]) == ["a5", "a6", "b5"]


def test_parallel_pulls_land_the_same_bytes_as_sequential_ones(tmp_path: Path) -> None:
    """Manifests, bodies and derived files; every chain verified."""
    now = FIRST + timedelta(days=3)
    with serve(read_scenario(FLEET, "several.yaml", None), VirtualClock(now)) as running:

        def opened(name: str) -> OpenHome:
            home = make_home(
                tmp_path / name, running.fleet, running.thanos_url, running.kubernetes_urls
            )
            return OpenHome(home, StoppedClock(now))

        span = Interval(FIRST, FIRST + timedelta(days=2))
        together, apart = opened("together"), opened("apart")
        attempts = steps.pull(together, span)
        clusters = sorted(cluster.cluster_id for cluster in running.fleet.clusters)
        for cluster_id in clusters:
            steps.pull(apart, span, clusters=[cluster_id])
    assert {attempt.outcome for attempt in attempts if attempt.source is Source.THANOS} == {
        Outcome.OK
    }
    assert [a.attempt_id for a in attempts] == [a.attempt_id for a in apart.landing.attempts()]
    assert len(attempts) == 3 * 2 * 2
    assert not OpenHome(together.home, together.clock).landing.verify().problems
    for folder in ("landing", "runs"):
        assert _files(together.home.path / folder) == _files(apart.home.path / folder)


def _files(folder: Path) -> dict[str, bytes]:
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    if not found:
        raise ObjectMissing(str(folder), "any file")
    return found
