"""Pods whose times the scenario gives to the second.

Put here: such a pod, as it is written.
Not here: generated pods (`cluster_simulation`), or giving devices (`cluster_nodes`).
"""

from __future__ import annotations

from fake_gpu.fleet.model import DeviceLoad, Run
from fake_gpu.fleet.pod_arrivals import PodArrival, PodCreator
from fake_gpu.fleet.simulated_pods import SimulatedPod
from fake_gpu.scenario.seeds import RandomStream, uuid_of
from fake_gpu.scenario.spec_work import PodSpec

_EXIT_CODES = {"completed": 0, "error": 1, "evicted": 137, "evicted_without_end": 137}
_REASONS = {"completed": "Completed"}


def exact_pod(creator: PodCreator, spec: PodSpec, number: int) -> SimulatedPod:
    """The `number`-th exact pod of a workload."""
    arrival = PodArrival(spec.created, number, number)
    draw = creator.draw("exact", number)
    name = spec.name or _name(creator, arrival)
    uid = spec.uid or uuid_of(
        creator.seed,
        creator.cluster_id,
        creator.spec.namespace,
        creator.spec.kind,
        name,
        spec.created,
    )
    scheduled = None if spec.never_scheduled else _or(spec.scheduled, spec.created)
    runs = _runs(spec)
    finished = runs[-1].ended_at if runs else None
    gone = _gone(creator, spec, finished)
    pod = SimulatedPod(
        cluster_id=creator.cluster_id,
        spec=creator.spec,
        name=name,
        uid=uid,
        created_at=spec.created,
        owners=creator.owners(number, spec.created),
        utilisation=creator.load().draw(draw),
        pod_ip=f"10.{draw.between(128, 191)}.{draw.between(0, 255)}.{draw.between(1, 254)}",
        replica=number,
        exact=True,
        node_name=spec.node or creator.spec.node if scheduled is not None else "",
        scheduled_at=scheduled,
        acknowledged_at=_acknowledged(scheduled, runs),
        main_runs=runs,
        finished_at=finished,
        end=spec.ends,
        exit_code=_EXIT_CODES[spec.ends],
        deletion_requested_at=spec.deleted,
        grace_seconds=creator.spec.grace_seconds,
        gone_at=gone,
    )
    _give_loads(pod, spec, draw)
    if finished is None and gone is not None and scheduled is not None:
        # Deleted without an end in its status: its devices are free when the object is gone.
        pod.finished_at, pod.end = gone, "gone"
        pod.main_runs = [*runs[:-1], Run(runs[-1].started_at, gone, 137, "Error")] if runs else []
    _fit_init_containers(pod)
    return pod


def _give_loads(pod: SimulatedPod, spec: PodSpec, draw: RandomStream) -> None:
    """Draw loads in the order of the scenario: one more at the end changes no other."""
    for load in spec.card_loads:
        use = load.utilisation.draw(draw)
        if load.from_ is None:
            pod.card_loads[load.card] = (use, load.memory_used_mib)
            continue
        later = DeviceLoad(load.from_, use, load.memory_used_mib)
        known = pod.later_loads.get(load.card, ())
        pod.later_loads[load.card] = tuple(sorted((*known, later), key=lambda each: each.from_at))


def _name(creator: PodCreator, arrival: PodArrival) -> str:
    if creator.spec.kind == "Pod" and len(creator.spec.pods) > 1:
        return f"{creator.spec.name}-{arrival.replica}"
    return next(creator.pod_names(arrival, arrival.at))


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _runs(spec: PodSpec) -> list[Run]:
    if spec.runs:
        return [
            Run(run.from_, run.until, run.exit_code, _reason(run.until, run.exit_code))
            for run in spec.runs
        ]
    if spec.started is None:
        return []
    code = _EXIT_CODES[spec.ends] if spec.ended is not None else 0
    return [Run(spec.started, spec.ended, code, _reason(spec.ended, code))]


def _reason(until: int | None, exit_code: int) -> str:
    if until is None:
        return ""
    return "Completed" if exit_code == 0 else "Error"


def _gone(creator: PodCreator, spec: PodSpec, finished: int | None) -> int | None:
    if spec.gone is not None:
        return spec.gone
    if spec.deleted is not None:
        return max(spec.deleted, _or(finished, spec.deleted + creator.spec.grace_seconds))
    return None if finished is None else finished + creator.spec.keep


def _acknowledged(scheduled: int | None, runs: list[Run]) -> int | None:
    if scheduled is None:
        return None
    return min([scheduled + 1, *(run.started_at for run in runs[:1])])


def _fit_init_containers(pod: SimulatedPod) -> None:
    """Init containers share the time between binding and the first start."""
    early = [c for c in pod.spec.all_containers() if c.kind != "main"]
    if not early or pod.scheduled_at is None or pod.started_at is None:
        return
    room = pod.started_at - pod.scheduled_at
    for n, container in enumerate(early):
        start = pod.scheduled_at + room * n // len(early)
        end = pod.scheduled_at + room * (n + 1) // len(early)
        if container.kind == "init":
            pod.init_runs[container.name] = Run(start, end, 0, "Completed")
        else:
            pod.init_runs[container.name] = Run(start, None)
