"""How many lines each exposition has through time, without writing any.

Put here: counting.
Not here: the use of the count (`target_series`).

The number of lines of a pod follows from its shape: how many containers in which state, bound or
not, with an address or not. One document of each shape is made and counted; months have a few
dozen of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from fake_gpu.exporters.kube_state_metrics.forms import ObjectMetric
from fake_gpu.fleet.model import Container, PodLifetime
from fake_gpu.kubernetes.objects import ObjectHistory, Version
from fake_gpu.kubernetes.pods import PodStep, pod_document, pod_steps
from fake_gpu.prometheus.pod_series import PodIndex
from fake_gpu.prometheus.segments import NO_END, LineCounts

Shape = tuple[object, ...]


class PodLines:
    """The lines of pods in one exporter."""

    def __init__(self, index: PodIndex, families: Sequence[ObjectMetric]) -> None:
        self._index = index
        self._families = families
        self._shapes: dict[Shape, int] = {}
        self._counted: dict[int, list[tuple[int, int, int]]] = {}

    def between(self, start_ms: int, end_ms: int) -> LineCounts:
        numbers = self._index.between(start_ms, end_ms)
        self._counted = {
            number: self._counted.get(number) or list(self._of(self._index.pods[number]))
            for number in numbers
        }
        for counts in self._counted.values():
            yield from counts

    def _of(self, pod: PodLifetime) -> Iterator[tuple[int, int, int]]:
        steps = [step for step in pod_steps(pod) if step.verb != "DELETED"]
        last = {step.at: step for step in steps}
        times = sorted(last)
        end = NO_END if pod.gone_at is None else pod.gone_at
        for at, until in pairwise([*times, end]):
            until_ms = NO_END if until == NO_END else until * 1000
            yield at * 1000, until_ms, self._lines(pod, last[at])

    def _lines(self, pod: PodLifetime, step: PodStep) -> int:
        shape = _shape(pod, step)
        if shape not in self._shapes:
            document = pod_document(pod, step, 1)
            self._shapes[shape] = sum(
                sum(1 for _ in family.lines(document)) for family in self._families
            )
        return self._shapes[shape]


def _shape(pod: PodLifetime, step: PodStep) -> Shape:
    at = step.at
    phase = pod.phase_at(at)
    asked = pod.deletion_requested_at
    return (
        step.bound,
        step.tried,
        pod.acknowledged_at is not None and at >= pod.acknowledged_at,
        phase.phase if phase else "",
        asked is not None and at >= asked,
        bool(pod.pod_ip),
        bool(pod.owners),
        len(pod.claims),
        pod.end_reported,
        tuple(_container_shape(container, at) for container in pod.containers),
    )


def _container_shape(container: Container, at: int) -> Shape:
    begun = [run for run in container.runs if run.started_at <= at]
    ended = bool(begun) and begun[-1].ended_at is not None and begun[-1].ended_at <= at
    again = len(begun) < len(container.runs)
    code = begun[-1].exit_code if begun and ended else 0
    asked = tuple(container.requests)
    return container.kind, asked, len(begun) > 1, bool(begun), ended, again, code


class ObjectLines:
    """The lines of all objects but pods."""

    def __init__(self, history: ObjectHistory, families: Sequence[ObjectMetric]) -> None:
        self._history = history
        self._families: dict[str, list[ObjectMetric]] = {}
        for family in families:
            if family.kind != "Pod":
                self._families.setdefault(family.kind, []).append(family)
        self._known: dict[int, int] = {}

    def between(self, start_ms: int, end_ms: int) -> LineCounts:
        for kind, families in self._families.items():
            for version in self._history.versions(kind):
                until = NO_END if version.until_at is None else version.until_at * 1000
                if version.from_at * 1000 <= end_ms and until > start_ms:
                    yield version.from_at * 1000, until, self._lines(version, families)

    def _lines(self, version: Version, families: Sequence[ObjectMetric]) -> int:
        number = version.change.resource_version
        if number not in self._known:
            document = version.object
            self._known[number] = sum(sum(1 for _ in family.lines(document)) for family in families)
        return self._known[number]
