"""The collector follows a real cluster while it is killed, disconnected, and loses watch history.

A real scheduler places pods and kwok runs them; the test restarts, evicts and deletes them. A naive
observer reads every revision from etcd. At the end the journal agrees with the observer, except
inside the gaps that the journal records.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from domain.interval import Interval, format_instant, hour_of
from ingestion.evidence.landing import Landing
from ingestion.kubernetes.journal_decoder import decode_rows
from ingestion.kubernetes.journal_lines import Line
from ingestion.kubernetes.pull import pull_hours
from tests.servers.collecting import CollectorProcess, PushedClock, may_read
from tests.servers.control_plane import ControlPlane, control_plane, kwok, scheduler
from tests.servers.etcd_history import Observer, PodHistory, observing
from tests.servers.network_relay import Relay, relayed
from tests.servers.players import GPU, Players, container
from tests.servers.process import wait_for
from tests.servers.s3 import s3_server
from warehouse.manifest import Attempt, Outcome
from warehouse.store import FolderStore

pytestmark = pytest.mark.servers

NAMESPACES = ("team-a", "team-b", "openshift-nvidia")
SEED = 20261118
Row = dict[str, Any]

# --- the world -----------------------------------------------------------------------------------


class Moment(NamedTuple):
    """A time of the collector's clock, and the number of the latest write then."""

    at: datetime
    revision: int


class LostHistory(NamedTuple):
    """The limits of changes that the collector did not receive and that no server has now."""

    marked: Moment  # the journal has all changes before this
    broken: Moment  # the collector receives no change after this
    forgotten: Moment  # the API server has no history before this
    mended: Moment  # the journal has a list, and all changes after it


@dataclass
class Cluster:
    """A running cluster, the collector, and the observer."""

    plane: ControlPlane
    players: Players
    observer: Observer
    relay: Relay
    clock: PushedClock
    collector: CollectorProcess
    draw: random.Random = field(default_factory=lambda: random.Random(SEED))
    dark: list[LostHistory] = field(default_factory=list)
    marks: int = 0

    def now(self) -> Moment:
        return Moment(self.clock.now(), self.plane.revision())

    def mark(self) -> Moment:
        """Create a pod that requests more than any node has; wait until the journal has it.

        Returns the moment before: the journal has every change until then.
        """
        before = self.now()
        self.marks += 1
        name = f"mark-{self.marks}"
        self.players.pod("team-a", name, 9_999)
        self.collector.wait_for_pod(name)
        written = self.players.read("team-a", name)["metadata"]["resourceVersion"]
        self.observer.wait_until(int(written))
        return before

    def forget(self) -> Moment:
        """Restart the API server over a store without history; returns the moment before."""
        before = self.now()
        self.plane.stop_api()
        self.plane.compact()
        self.plane.start_api()
        return before


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(tmp_path_factory.mktemp("plane")) as plane, plane.client() as admin:
        may_read(admin)
        players = Players(admin)
        for number in range(4):
            players.node(f"gpu-{number}", 64)
        for name in NAMESPACES:
            players.namespace(name)
        yield plane


@pytest.fixture
def cluster(plane: ControlPlane, tmp_path: Path) -> Iterator[Cluster]:
    clock = PushedClock(tmp_path / "ahead")
    with ExitStack() as stack:
        admin = stack.enter_context(plane.client())
        observer = stack.enter_context(observing(plane, clock))
        relay = stack.enter_context(relayed(plane.api_port))
        players = Players(admin)
        system = admin.get("/api/v1/namespaces/kube-system").json()
        collector = CollectorProcess(
            tmp_path,
            f"https://127.0.0.1:{relay.port}",
            plane.token_file("collector"),
            plane.ca_file,
            system["metadata"]["uid"],
            str(tmp_path / "spool"),
            clock,
        )
        stack.enter_context(scheduler(plane, tmp_path, "default-scheduler"))
        stack.enter_context(kwok(plane, tmp_path))
        stack.callback(lambda: plane.remove("/registry/pods/"))
        stack.callback(collector.kill)
        yield Cluster(plane, players, observer, relay, clock, collector)


# --- events --------------------------------------------------------------------------------------


def create_pods(cluster: Cluster, name: str, count: int) -> None:
    """Pods of every kind: services, Jobs, with init containers and sidecars, and without GPUs."""
    players = cluster.players
    for number in range(count):
        namespace = NAMESPACES[number % len(NAMESPACES)]
        pod = f"{name}-{number}"
        match number % 5:
            case 0:
                owner = players.job(namespace, f"job-{pod}")
                players.pod(namespace, pod, 1, owner=owner)
            case 1:
                before = (container("prep", 2), container("proxy", 1, stays=True))
                players.pod(namespace, pod, 1, before=before)
            case 2:
                players.pod(namespace, pod, 0)
            case _:
                players.pod(namespace, pod, 1 + number % 2)


def act_on_pods(cluster: Cluster, count: int) -> None:
    """Actions on running pods, some of which are drawn at random."""
    running = sorted(
        (meta["namespace"], meta["name"])
        for pod in cluster.players.pods()
        if pod["status"]["phase"] == "Running"
        and not (meta := pod["metadata"]).keys() & {"ownerReferences", "deletionTimestamp"}
    )
    cluster.draw.shuffle(running)
    players = cluster.players
    for number, (namespace, name) in enumerate(running[:count]):
        match number % 5:
            case 0:
                players.restart(namespace, name)
            case 1:
                players.evict(namespace, name)
            case 2:
                players.delete(namespace, name)
            case 3:
                players.delete(namespace, name, grace=0)
                players.pod(namespace, name, 3)  # another pod of the same name
            case _:
                players.fail(namespace, name)
    brief = f"brief-{cluster.draw.randrange(10**6)}"
    players.pod("team-b", brief, 1)
    players.delete("team-b", brief, grace=0)


def the_whole_story(cluster: Cluster) -> None:
    collector = cluster.collector
    collector.start()
    collector.wait_for("listed", resource="pods", why="start")
    create_pods(cluster, "first", 120)
    cluster.mark()
    act_on_pods(cluster, 25)
    cluster.mark()
    # Killed during many changes, and changes continue while it is down; the history is kept.
    create_pods(cluster, "second", 60)
    collector.kill()
    act_on_pods(cluster, 20)
    collector.start()
    act_on_pods(cluster, 10)
    cluster.mark()
    # Disconnected and connected again.
    cluster.relay.cut()
    act_on_pods(cluster, 15)
    cluster.relay.mend()
    marked = cluster.mark()
    # Disconnected, with the history of the meantime deleted.
    cluster.relay.cut()
    broken = cluster.now()
    create_pods(cluster, "third", 30)
    act_on_pods(cluster, 15)
    forgotten = cluster.forget()
    cluster.relay.mend()
    again = cluster.mark()
    cluster.dark.append(LostHistory(marked, broken, forgotten, cluster.now()))
    act_on_pods(cluster, 10)
    # Killed, with the history of the meantime deleted.
    collector.kill()
    broken = cluster.now()
    act_on_pods(cluster, 15)
    forgotten = cluster.forget()
    collector.start()
    cluster.mark()
    cluster.dark.append(LostHistory(again, broken, forgotten, cluster.now()))
    create_pods(cluster, "fourth", 20)
    act_on_pods(cluster, 10)
    cluster.mark()


def wait_until_idle(cluster: Cluster) -> None:
    """Wait until no pod starts, ends or is deleted, so that the moved clock does not affect one."""

    def moves(pod: dict[str, Any]) -> bool:
        starting = pod["status"]["phase"] == "Pending" and "nodeName" in pod["spec"]
        ending = pod["status"]["phase"] == "Running" and "ownerReferences" in pod["metadata"]
        return starting or ending or "deletionTimestamp" in pod["metadata"]

    wait_for(lambda: not any(map(moves, cluster.players.pods())), every_seconds=0.5)
    cluster.mark()


def end_of_hour(cluster: Cluster) -> None:
    """Move the clock into the next hour; the journal closes the last hour and lists all objects."""
    wait_until_idle(cluster)
    now = cluster.clock.now()
    left = hour_of(now) + timedelta(hours=1) - now
    cluster.clock.push(int(left.total_seconds()) + 5)
    cluster.mark()
    # Watches without events are closed after two minutes.
    cluster.clock.push(150)
    cluster.mark()
    cluster.collector.wait_for("hour_closed", hour=format_instant(hour_of(now)))
    cluster.collector.wait_for("listed", resource="pods", why="hourly", complete=True)


# --- comparison ----------------------------------------------------------------------------------


def landed(
    cluster: Cluster, began_at: datetime, folder: Path
) -> tuple[Attempt, dict[str, list[Row]]]:
    landing = Landing(FolderStore(folder / "landing"))
    window = Interval(hour_of(began_at), hour_of(cluster.clock.now()))
    collector = cluster.collector
    attempt = pull_hours(collector.cluster_id, window, collector.spool, landing, cluster.clock)
    return attempt, decode_rows(attempt, landing)


def requests_devices(pod: PodHistory) -> bool:
    containers = [*pod.last["spec"]["containers"], *pod.last["spec"].get("initContainers", [])]
    return any(c["resources"].get("requests") for c in containers)


def reserved_devices(pod: PodHistory) -> int:
    """The reservation of the scheduler: prep runs first, the sidecar runs beside main."""
    asked = {
        c["name"]: int(c["resources"].get("requests", {}).get(GPU, 0))
        for c in [*pod.last["spec"]["containers"], *pod.last["spec"].get("initContainers", [])]
    }
    return max(asked.get("prep", 0), asked["main"] + asked.get("proxy", 0))


def describe_lifetime(pod: PodHistory) -> str:
    first, last = pod.revisions[0], pod.revisions[-1]
    gone = "gone" if pod.deleted else "there"
    return f"{pod.name}: {first.told_at:%H:%M:%S} … {last.told_at:%H:%M:%S}, {gone}"


def moment(value: datetime | None) -> str:
    return "" if value is None else format_instant(value)


def last_observations(rows: list[Row]) -> dict[str, Row]:
    """The last observation of each pod, and whether any observation says that it is gone."""
    known: dict[str, Row] = {}
    for row in sorted(rows, key=lambda r: r["journal_position"]):
        before = known.get(row["pod_uid"], {"deleted": False})
        known[row["pod_uid"]] = row | {"deleted": row["deleted"] or before["deleted"]}
    return known


def lost_revisions(lines: Iterable[Line]) -> list[range]:
    """The revisions of pods that the journal lacks: from its last one to the next list.

    Their times would not do: under load, the collector reads a change seconds after it was made.
    """
    found: list[range] = []
    last, is_lost = 0, False
    for line in lines:
        match line:
            case {"line": "gap", "resource": "pods"}:
                is_lost = True
            case {"line": "listed", "resource": "pods", "version": version}:
                found += [range(last + 1, version + 1)] if is_lost else []
                last, is_lost = version, False
            case {"line": "watched", "resource": "pods", "version": version}:
                last = max(last, version)
            case {"line": "object", "resource": "pods", "via": "added" | "modified" | "deleted"}:
                last = max(last, int(line["object"]["metadata"]["resourceVersion"]))
    return found


def in_a_gap(lost: list[range], pod: PodHistory) -> bool:
    return any(revision.number in gap for gap in lost for revision in pod.revisions)


def came_and_went_in_one(lost: list[range], pod: PodHistory) -> bool:
    first, last = pod.revisions[0].number, pod.revisions[-1].number
    return pod.deleted and any(first in gap and last in gap for gap in lost)


def test_the_journal_is_what_an_observer_with_the_full_history_saw(
    cluster: Cluster, tmp_path: Path
) -> None:
    began_at = cluster.clock.now()
    the_whole_story(cluster)
    end_of_hour(cluster)
    cluster.collector.stop()
    attempt, rows = landed(cluster, began_at, tmp_path)

    lost = lost_revisions(cluster.collector.lines())
    check_gaps(cluster, lost, rows["journal_gaps"])
    known = last_observations(rows["pod_observations"])
    told_then = cluster.observer.until(attempt.window.ended_at)
    seen = {uid: pod for uid, pod in told_then.items() if requests_devices(pod)}
    assert len(seen) > 200
    unseen = {uid for uid, pod in seen.items() if came_and_went_in_one(lost, pod)}
    assert unseen, "somebody must have come and gone in a gap"
    assert known.keys() <= seen.keys()
    missing = seen.keys() - known.keys() - unseen
    assert [describe_lifetime(seen[uid]) for uid in missing] == [], lost
    requests = {(r["pod_uid"], r["resource"]): r["device_count"] for r in rows["pod_requests"]}
    for uid, row in known.items():
        pod = seen[uid]
        assert (row["pod_name"], row["node_name"]) == (pod.name, pod.node)
        assert requests[uid, GPU] == reserved_devices(pod)
        check_times(lost, pod, row)
    check_contradictions(rows["contradictions"])
    # The watch began inside this hour.
    assert {hour.outcome for hour in attempt.hours} == {Outcome.DEGRADED}


def check_times(lost: list[range], pod: PodHistory, row: Row) -> None:
    times = tuple(moment(row[name]) for name in ("bound_at", "started_at", "ended_at"))
    truth = (pod.bound_at, pod.started_at, pod.ended_at)
    what = f"{pod.name}: {times} is not {truth}"
    assert row["deleted"] == pod.deleted, what
    if not in_a_gap(lost, pod):
        assert times == truth, what
        assert (row["phase"], row["restart_count"]) == (pod.phase, pod.restarts), what
        return
    # A time that was written and overwritten inside a gap is lost; a recorded time is still true.
    assert times[0] in ("", truth[0]), what
    assert times[1] == "" or times[1] >= truth[1], what
    assert times[2] in ("", *pod.ends), what
    if not pod.deleted:
        assert times[0] == truth[0], what
        # kwok may write an end and then another one, both inside the gap.
        assert (times[2] == "") == (truth[2] == ""), what


def check_gaps(cluster: Cluster, lost: list[range], rows: list[Row]) -> None:
    """One gap for each loss: from the last change in the journal to the next list.

    Events that were received but not written when a collector was killed are lost.
    """
    gaps = sorted((row["gap_started_at"], row["gap_ended_at"]) for row in rows)
    assert len(gaps) == len(lost) == len(cluster.dark)
    second = timedelta(seconds=1)
    for (began_at, ended_at), revisions, dark in zip(gaps, lost, cluster.dark, strict=True):
        assert dark.marked.revision < revisions.start <= dark.broken.revision + 1
        assert dark.forgotten.revision < revisions.stop <= dark.mended.revision + 1
        # The journal has whole seconds.
        assert dark.marked.at - second < began_at <= dark.forgotten.at
        assert dark.forgotten.at - second < ended_at <= dark.mended.at


def check_contradictions(rows: list[Row]) -> None:
    """An evicted pod has no end. kwok rewrites starts, and also ends after it lost its server."""
    found = {row["what"] for row in rows}
    assert found >= {"start_moved", "end_without_time"}
    assert found <= {"start_moved", "end_without_time", "end_moved"}


# --- whole hours ---------------------------------------------------------------------------------


@pytest.fixture(params=["folder", "bucket"])
def spool(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The place of the journal: a volume, or a bucket of a real S3 server."""
    if request.param == "folder":
        yield str(tmp_path / "spool")
        return
    with s3_server(tmp_path / "s3") as bucket:
        for name, text in bucket.environment.items():
            monkeypatch.setenv(name, text)
        yield bucket.url("spool")


def test_an_hour_with_an_unbroken_watch_is_ok(cluster: Cluster, spool: str, tmp_path: Path) -> None:
    """A few pods and a kill: most watches have no event for a whole hour."""
    cluster.collector.spool_location = spool
    cluster.collector.start()
    cluster.mark()
    cluster.collector.kill()
    cluster.collector.start()
    cluster.mark()
    began_at = cluster.clock.now()
    end_of_hour(cluster)
    end_of_hour(cluster)
    cluster.collector.stop()
    attempt, rows = landed(cluster, began_at, tmp_path)
    assert [hour.outcome for hour in attempt.hours] == [Outcome.DEGRADED, Outcome.OK]
    assert rows["journal_gaps"] == []
