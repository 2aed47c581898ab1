"""The responses of one cluster's exporters to a scrape at the present time.

Put here: `/metrics` of every target, as text, and the application that serves them.
Not here: the samples that Prometheus stores (`cluster_series`).

Paths: `/kube-state-metrics/metrics`, `/kube-scheduler/metrics/resources`,
`/dcgm-exporter/NODE/metrics`, `/amd-exporter/NODE/metrics`; `/` lists them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC
from typing import TYPE_CHECKING

from domain.clock import Clock
from fake_gpu.exporters import amd, dcgm, scheduler
from fake_gpu.exporters.devices import NodeUse
from fake_gpu.exporters.exposition import FamilyHead, labels_text
from fake_gpu.exporters.kube_state_metrics.metric_families import exposition, families_of
from fake_gpu.exporters.numbers import exposition_text
from fake_gpu.fleet.model import PodLifetime, SimulatedCluster
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.device_series import Amd, Dcgm, DeviceSeries
from fake_gpu.prometheus.node_intervals import NodeIntervals
from fake_gpu.prometheus.segments import ExposedSeries, ValueSegment
from fake_gpu.prometheus.targets import (
    AMD,
    DCGM,
    KUBE_STATE_METRICS,
    SCHEDULER,
    Target,
    targets_of,
)

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Text = Callable[[int], str]


class Expositions:
    """The text of every target of a cluster, at a millisecond."""

    def __init__(self, cluster: SimulatedCluster, history: ObjectHistory) -> None:
        self.history = history
        self.families = families_of(openshift=bool(cluster.openshift_version))
        self.style = dcgm.Style.of(cluster.monitoring)
        self._pods: dict[str, list[PodLifetime]] = {}
        for pod in cluster.pods:
            if pod.holds:
                self._pods.setdefault(pod.node_name, []).append(pod)
        self.texts: dict[str, tuple[Target, Text]] = {}
        # The pages cache their results, and several may be requested at once.
        self._lock = threading.Lock()
        for target in targets_of(cluster):
            for path, text in self._of(target):
                self.texts[path] = (target, text)

    def _of(self, target: Target) -> Iterator[tuple[str, Text]]:
        if target.job == KUBE_STATE_METRICS:
            yield f"/{target.job}/metrics", self._state_metrics
        elif target.job == SCHEDULER:
            yield f"/{target.job}/metrics/resources", self._scheduler
        elif target.node is not None and target.job in (DCGM, AMD):
            use = NodeUse(target.node, self._pods.get(target.node.name, ()))
            path = f"/{target.job}/{target.node.name}/metrics"
            if target.job == DCGM:
                yield path, _dcgm(target, Dcgm(NodeIntervals(use), self.style))
            else:
                yield path, _amd(target, Amd(NodeIntervals(use)))

    def _state_metrics(self, at_ms: int) -> str:
        second = at_ms // 1000
        objects = (
            document
            for kind in self.history.kinds
            for document in self.history.objects_at(kind, second)
        )
        return exposition(objects, self.families)

    def _scheduler(self, at_ms: int) -> str:
        return scheduler.exposition(self.history.objects_at("Pod", at_ms // 1000))

    def text(self, path: str, at_ms: int) -> str | None:
        """The exposition at a path; None while its exporter cannot be reached."""
        target, text = self.texts[path]
        for from_ms, end in target.reachable:
            if from_ms <= at_ms and (end is None or at_ms < end):
                with self._lock:
                    return text(at_ms)
        return None


def _dcgm(target: Target, exporter: Dcgm) -> Text:
    series = DeviceSeries(target, exporter)

    def text(at_ms: int) -> str:
        return "".join(
            _family(field.head, series.exposed_series(name, at_ms, at_ms), at_ms, field.text)
            for name, field in exporter.fields.items()
        )

    return text


def _amd(target: Target, exporter: Amd) -> Text:
    series = DeviceSeries(target, exporter)
    heads = {metric.head.name: metric.head for metric in amd.METRICS}
    heads[amd.NODES] = FamilyHead(amd.NODES, "Number of GPUs on the node")

    def text(at_ms: int) -> str:
        return "".join(
            _family(heads[name], series.exposed_series(name, at_ms, at_ms), at_ms, exposition_text)
            for name in series.names()
        )

    return text


def _family(
    head: FamilyHead,
    series_list: Iterable[ExposedSeries],
    at_ms: int,
    number: Callable[[float], str],
) -> str:
    lines = []
    for series in series_list:
        for segment in series.segments:
            if segment.from_ms <= at_ms < segment.until_ms:
                value = segment.value if isinstance(segment, ValueSegment) else segment.at(at_ms)
                labels = labels_text(series.exposed or ())
                lines.append(f"{head.name}{labels} {number(value)}\n")
    return head.text() + "".join(lines) if lines else ""


def make_metrics_app(cluster: SimulatedCluster, history: ObjectHistory, clock: Clock) -> Starlette:
    """All exporters of a cluster under one port, each under its path."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response
    from starlette.routing import Route

    shown = Expositions(cluster, history)

    def now_ms() -> int:
        return round(clock.now().astimezone(UTC).timestamp() * 1000)

    async def listed(_: Request) -> Response:
        return Response("".join(f"{path}\n" for path in shown.texts), media_type="text/plain")

    def endpoint(path: str) -> Route:
        async def scraped(_: Request) -> Response:
            text = await run_in_threadpool(shown.text, path, now_ms())
            if text is None:
                return Response("the exporter is not running\n", 503, media_type="text/plain")
            return Response(text, 200, {"Content-Type": CONTENT_TYPE})

        return Route(path, scraped)

    return Starlette(routes=[Route("/", listed), *map(endpoint, shown.texts)])
