"""One scenario served over HTTP: one Thanos, a Kubernetes API for each cluster, and the control.

Put here: starting, driving and stopping the servers of a fleet, in one process.
Not here: their responses (`prometheus`, `kubernetes`, `exporters`), or the control (`control`).

All servers share one clock and one event loop in one thread; requests that compute run in a pool
of threads. A changed scenario is checked, and then applied whole.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from domain.errors import LedgerError, PortTaken
from fake_gpu.clock import VirtualClock
from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet
from fake_gpu.kubernetes.writes import WorkloadPatch, WrittenObjects
from fake_gpu.scenario.load import LoadedScenario
from fake_gpu.scenario_change import (
    ScenarioChanges,
    continue_scenario,
    first_free_second,
    require_same_past,
)

if TYPE_CHECKING:
    import uvicorn

    from fake_gpu.kubernetes.forms import Document
    from fake_gpu.kubernetes.objects import ObjectHistory
    from fake_gpu.kubernetes.server import ChangeWorkload, KubernetesApi
    from fake_gpu.prometheus.source import FleetSeries

LOOPBACK = "127.0.0.1"

# Starting takes milliseconds; a machine under load may need more, for ever would hide a fault.
STARTING_SECONDS_LIMIT = 30.0

# Ten answers of a large hour make so many lasting things; connections that fail leave few cycles.
SETTLED_THRESHOLDS = (200_000, 10, 10)

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Any]


class Switch:
    """An ASGI application that can be replaced while it is served; it has the fleet's time."""

    def __init__(self, app: Asgi, clock: VirtualClock) -> None:
        self.app = app
        self.clock = clock

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        async def dated(message: Scope) -> None:
            if message["type"] == "http.response.start":
                # Clients measure the offset of their clock with it.
                now = _http_date(self.clock.now_seconds())
                message["headers"] = [*message.get("headers", ()), (b"date", now)]
            await send(message)

        await self.app(scope, receive, dated)


@lru_cache(maxsize=8)
def _http_date(second: int) -> bytes:
    return format_datetime(datetime.fromtimestamp(second, UTC), usegmt=True).encode()


@dataclass(slots=True)
class Views:
    """The applications that show one fleet."""

    histories: dict[str, ObjectHistory]
    thanos: Asgi
    kubernetes: dict[str, KubernetesApi]
    metrics: dict[str, Asgi]


def build_views(
    fleet: Fleet,
    clock: VirtualClock,
    ledger: FaultLedger,
    written: Mapping[str, WrittenObjects] | None = None,
    change_workload: ChangeWorkload | None = None,
) -> Views:
    """The views of a fleet and its clusters, over one clock."""
    from fake_gpu.kubernetes.objects import ObjectHistory
    from fake_gpu.kubernetes.server import KubernetesApi
    from fake_gpu.prometheus.app import ApiOptions, make_app
    from fake_gpu.prometheus.expositions import make_metrics_app
    from fake_gpu.prometheus.source import FleetSeries

    histories = {c.cluster_id: ObjectHistory(c, fleet.faults, ledger) for c in fleet.clusters}
    source = FleetSeries(fleet, histories, clock, ledger)
    labels = sorted({c.monitoring.replica_label for c in fleet.clusters})
    return Views(
        histories=histories,
        thanos=make_app(source, clock, ApiOptions(replica_labels=tuple(labels))),
        kubernetes={
            c.cluster_id: KubernetesApi(
                c,
                clock,
                history=histories[c.cluster_id],
                faults=fleet.faults,
                ledger=ledger,
                written=(written or {}).get(c.cluster_id),
                change_workload=change_workload,
            )
            for c in fleet.clusters
        },
        metrics={
            c.cluster_id: make_metrics_app(c, histories[c.cluster_id], clock)
            for c in fleet.clusters
        },
    )


def series_of(fleet: Fleet, clock: VirtualClock) -> FleetSeries:
    """A fleet's samples without any server."""
    from fake_gpu.kubernetes.objects import ObjectHistory
    from fake_gpu.prometheus.source import FleetSeries

    return FleetSeries(fleet, {c.cluster_id: ObjectHistory(c) for c in fleet.clusters}, clock)


@dataclass(slots=True)
class Running:
    """The servers of one fleet, while they run."""

    fleet: Fleet
    clock: VirtualClock
    ledger: FaultLedger
    thanos_url: str = ""
    control_url: str = ""
    kubernetes_urls: dict[str, str] = field(default_factory=dict)  # by cluster ID
    metrics_urls: dict[str, str] = field(default_factory=dict)  # by cluster ID
    scenario_changes: ScenarioChanges = field(default_factory=ScenarioChanges)
    _loaded: LoadedScenario | None = None  # the served scenario, if there is one
    _views: Views | None = None
    _written: dict[str, WrittenObjects] = field(default_factory=dict)  # by cluster ID
    _switches: dict[str, Switch] = field(default_factory=dict)
    _servers: list[uvicorn.Server] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _driving: threading.Lock = field(default_factory=threading.Lock)

    @property
    def histories(self) -> Mapping[str, ObjectHistory]:
        """Every change of every cluster, as its API server serves them; by cluster ID."""
        assert self._views is not None, "views are there from the start"
        return self._views.histories

    def advance_to(self, when: datetime, woken: Collection[str] | None = None) -> None:
        """Drive the clock; returns when every open watch was sent its events.

        With `woken`, only those clusters' watches are woken now; the others with a later step.
        """
        assert self._views is not None, "views are there from the start"
        with self._driving:
            for cluster_id, api in self._views.kubernetes.items():
                api.is_silent = woken is not None and cluster_id not in woken
            self.clock.advance_to(when)

    def apply_scenario(self, read: Callable[[], LoadedScenario]) -> None:
        """Serve a changed scenario. The old one is kept if the new one cannot be read, is invalid,
        or would change the past."""
        with self._driving:  # a driven clock stands still until the new fleet is served
            try:
                loaded = continue_scenario(self._loaded, read(), self.clock)
                self._go_on_with(loaded)
            except LedgerError:
                self.scenario_changes.refused += 1
                self.scenario_changes.is_last_accepted = False
                raise
            self.scenario_changes.accepted += 1
            self.scenario_changes.is_last_accepted = True

    def change_workload(self, cluster_id: str, patch: WorkloadPatch) -> Document:
        """Scale or annotate a workload from the next second on, as a client requests; returns the
        changed object. Raises ApiRefusal."""
        from fake_gpu.kubernetes.answers import ApiRefusal
        from fake_gpu.kubernetes.writes import with_patch

        if self.clock.mode == "fixed" or self._loaded is None:
            message = "the clock of this fleet is stopped: serve it with --live or --driven"
            raise ApiRefusal(405, "MethodNotAllowed", message)
        [name] = [c.name for c in self.fleet.clusters if c.cluster_id == cluster_id]
        with self._driving:
            at = first_free_second(self.clock)
            scenario = with_patch(self._loaded.scenario, name, patch, at)
            try:
                self._go_on_with(replace(self._loaded, scenario=scenario))
            except LedgerError as error:
                raise ApiRefusal(422, "Invalid", error.message()) from None
            changed = [
                change
                for change in self.histories[cluster_id].changes
                if (change.at, change.kind) == (at, patch.kind)
                and (change.namespace, change.name) == (patch.namespace, patch.name)
            ]
        return changed[-1].object

    def _go_on_with(self, loaded: LoadedScenario) -> None:
        fleet = build_fleet(loaded)
        require_same_past(self.fleet, fleet, self.clock.now_seconds())
        views = self.build_views(fleet)
        assert self._views is not None, "views are there from the start"
        for api in self._views.kubernetes.values():
            api.close()
        self._loaded = loaded
        self._show(fleet, views)

    def build_views(self, fleet: Fleet) -> Views:
        for cluster in fleet.clusters:
            self._written.setdefault(cluster.cluster_id, WrittenObjects())
        return build_views(fleet, self.clock, self.ledger, self._written, self.change_workload)

    def close(self) -> None:
        """Stop all servers and wake all waiters of the clock."""
        self.clock.close()
        for server in self._servers:
            server.should_exit = True
            server.force_exit = True
        if self._thread is not None:
            self._thread.join(STARTING_SECONDS_LIMIT)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _show(self, fleet: Fleet, views: Views) -> None:
        self.fleet, self._views = fleet, views
        self.ledger.set_history(fleet.fired)
        apps: dict[str, Asgi] = {"thanos": views.thanos}
        apps |= {f"kubernetes/{c}": api.app for c, api in views.kubernetes.items()}
        apps |= {f"metrics/{c}": app for c, app in views.metrics.items()}
        for name, app in apps.items():
            if name in self._switches:
                self._switches[name].app = app
            else:
                self._switches[name] = Switch(app, self.clock)


def serve(
    scenario: LoadedScenario | Fleet,
    clock: VirtualClock,
    *,
    host: str = LOOPBACK,
    port: int = 0,
) -> Running:
    """Start all servers of a scenario; with a `port`, Thanos there and the others after it."""
    from fake_gpu.control import make_control_app

    loaded = None if isinstance(scenario, Fleet) else scenario
    fleet = scenario if isinstance(scenario, Fleet) else build_fleet(scenario)
    running = Running(fleet, clock, FaultLedger(), _loaded=loaded)
    running._show(fleet, running.build_views(fleet))
    running._switches["control"] = Switch(make_control_app(running), clock)
    sockets = _listen(host, port, list(_in_order(running._switches)))
    _start(running, sockets)
    for name, listening in sockets.items():
        url = f"http://{host}:{listening.getsockname()[1]}"
        kind, _, cluster_id = name.partition("/")
        match kind:
            case "thanos":
                running.thanos_url = url
            case "control":
                running.control_url = url
            case "kubernetes":
                running.kubernetes_urls[cluster_id] = url
            case "metrics":
                running.metrics_urls[cluster_id] = url
    return running


def _in_order(switches: Mapping[str, Switch]) -> list[str]:
    """Thanos first, then the control, then the clusters: fixed, so that ports can be counted."""
    rest = [name for name in switches if name not in ("thanos", "control")]
    return ["thanos", "control", *rest]


def _listen(host: str, port: int, names: list[str]) -> dict[str, socket.socket]:
    sockets: dict[str, socket.socket] = {}
    for n, name in enumerate(names):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port + n if port else 0))
        except (OSError, OverflowError) as error:
            for opened in (*sockets.values(), listening):
                opened.close()
            raise PortTaken(
                where=f"{host}:{port + n}",
                seen=f"cannot listen for {name}: {getattr(error, 'strerror', None) or error}",
                why="the servers of one fleet need ports in a row",
                remedy="choose another --port, or leave it out for free ones",
            ) from error
        sockets[name] = listening
    return sockets


def _start(running: Running, sockets: Mapping[str, socket.socket]) -> None:
    import uvicorn

    for name in sockets:
        config = uvicorn.Config(
            running._switches[name],
            log_level="critical",
            lifespan="off",
            date_header=False,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=60,
        )
        running._servers.append(uvicorn.Server(config))

    async def all_of_them() -> None:
        pairs = zip(running._servers, sockets.values(), strict=True)
        await asyncio.gather(*(server._serve([listening]) for server, listening in pairs))

    running._thread = threading.Thread(
        target=lambda: asyncio.run(all_of_them()), name="fake-fleet", daemon=True
    )
    running._thread.start()
    deadline = time.monotonic() + STARTING_SECONDS_LIMIT
    while not all(server.started for server in running._servers):
        if time.monotonic() > deadline or not running._thread.is_alive():
            running.close()
            raise PortTaken(
                where="the simulated fleet",
                seen="its servers did not start",
                why="there is no server to query",
                remedy="look at the messages above, and try another --port",
            )
        time.sleep(0.01)


def settle() -> None:
    """For a process that does nothing but serve: the fleet stays, and is not looked through.

    Python's cycle collector would go through all of it after every few answers, in vain.
    """
    import gc

    gc.collect()
    gc.freeze()
    gc.set_threshold(*SETTLED_THRESHOLDS)
