"""One pass over a cluster: decide, announce, stop, verify, restore, and record each step.

Put here: the order of a pass, its limits, and the reasons why nothing is done.
Not here: the rules of idleness (`decision`), patches (`actions`), or the loop (`daemon`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from clients.kubernetes import KubernetesClient, resource_path
from clients.kubernetes_errors import NotKubernetes, ServerRefused, ServerUnreachable
from clients.prometheus import PrometheusClient
from domain.clock import Clock
from idle_pruner import actions
from idle_pruner.cluster import (
    CLUSTER_ROLE,
    FIELD_MANAGER,
    STOP_NOTICE,
    STOPPABLE_KINDS,
    STOPPED_AT,
    ClusterReader,
    ObjectName,
    Workload,
    annotations_of,
    instant_of,
    metadata_of,
)
from idle_pruner.decision import Decision, Verdict, decide
from idle_pruner.evidence import Evidence, SeriesReading, collect_evidence
from idle_pruner.records import PruneRecord, Records, WorkloadStop, instant_text, stops_in
from idle_pruner.settings import PruneSettings

PODS_GONE_SECONDS = 90.0  # three times the default grace period of a pod's end
POLL_SECONDS = 2.0
RESTORE_FINALIZER = "gpu-ledger.io/restore"
KubernetesFailed = (ServerRefused, ServerUnreachable, NotKubernetes)

# The command by which a person returns the GPUs of a kind that the pruner does not stop.
MANUAL_COMMANDS: Mapping[str, str] = {
    "Pod": "kubectl -n {namespace} delete pod {name}",
    "Job": 'kubectl -n {namespace} patch job {name} -p \'{{"spec":{{"suspend":true}}}}\'',
    "RayCluster": "kubectl -n {namespace} patch raycluster {name} --type merge "
    '-p \'{{"spec":{{"suspend":true}}}}\'',
    "LeaderWorkerSet": "kubectl -n {namespace} scale leaderworkerset {name} --replicas 0",
}


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """The verdict on one workload in a pass, and the action."""

    workload: ObjectName
    replica_count: int
    device_count: int
    verdict: Verdict
    action: str  # none, would stop, noticed, stopped, restored, refused, report only
    reasons: tuple[str, ...]

    def row(self) -> dict[str, Any]:
        return {
            "namespace": self.workload.namespace,
            "kind": self.workload.kind,
            "name": self.workload.name,
            "replicas": self.replica_count,
            "devices": self.device_count,
            "verdict": self.verdict.value,
            "action": self.action,
            "reason": " ".join(self.reasons),
        }


@dataclass(frozen=True, slots=True)
class PassResult:
    """One pass over the cluster."""

    started_at: datetime
    results: tuple[WorkloadResult, ...]

    def count(self, action: str) -> int:
        return sum(result.action == action for result in self.results)


class Pruner:
    """Runs passes over one cluster."""

    def __init__(
        self,
        client: KubernetesClient,
        prometheus: PrometheusClient,
        records: Records,
        settings: PruneSettings,
        clock: Clock,
    ) -> None:
        self._client = client
        self._prometheus = prometheus
        self._records = records
        self._settings = settings
        self._clock = clock

    def run_pass(self, progress: Callable[[int, int, str], None] | None = None) -> PassResult:
        """Decide about every workload; announce and stop those that are due."""
        now = self._clock.now()
        reader = ClusterReader(self._client)
        evidence = self._evidence(now)
        workloads = [w for w in reader.workloads() if not self._is_excluded(w, evidence)]
        results: list[WorkloadResult] = []
        due: list[Workload] = []
        history = self._records.read()
        last_events = {record.key: record.event for record in history}
        for number, workload in enumerate(workloads):
            if progress:
                progress(number, len(workloads), str(workload.name))
            decision = self._decide(workload, evidence)
            self._record_change(workload, decision, evidence, last_events, now)
            result = self._result(workload, decision, reader, now)
            if result.action == "due":
                due.append(workload)
            else:
                results.append(result)
        results += self._stop_all(due, history)
        if self._settings.scales_down and not self._settings.is_kill_switch_on:
            results += self._follow_stops(stops_in(history), reader)
        if progress:
            progress(len(workloads), len(workloads), "")
        return PassResult(now, tuple(results))

    def explain(self, namespace: str, pod: str) -> tuple[Workload, Decision, Evidence] | None:
        """The decision about the workload of one pod, and its evidence; None without such a pod."""
        workload = ClusterReader(self._client).workload_of(namespace, pod)
        if workload is None:
            return None
        evidence = self._evidence(self._clock.now())
        return workload, self._decide(workload, evidence), evidence

    def restore(self, name: ObjectName, reason: str) -> PruneRecord:
        """Set the previous state of a stopped workload again; `NotRestored` if it was changed."""
        now = self._clock.now()
        document = ClusterReader(self._client).read(name)
        if document is None:
            seen = "it does not exist, or may not be read"
            raise actions.NotRestored(name, seen, "check the kind, the namespace and the name")
        patch = actions.plan_restore(name, document, now)
        patched = actions.apply_patch(self._client, name, patch)
        record = self._record(name, "restored", now, document=document, reasons=[reason])
        actions.post_event(
            self._client, name, patched, "GpuWorkloadRestored", f"Restored: {reason}", now
        )
        return record

    def _evidence(self, now: datetime) -> Evidence:
        settings = self._settings
        return collect_evidence(
            self._prometheus,
            now,
            settings.thresholds.duration,
            honor_labels=settings.honor_labels,
        )

    def _is_excluded(self, workload: Workload, evidence: Evidence) -> bool:
        pods = [replica.name for replica in workload.replicas]
        readings = _readings(workload, evidence)
        return self._settings.excludes(workload.name.namespace, pods, readings)

    def _decide(self, workload: Workload, evidence: Evidence) -> Decision:
        return decide(workload.replicas, workload.changed_at, evidence, self._settings.thresholds)

    def _result(
        self, workload: Workload, decision: Decision, reader: ClusterReader, now: datetime
    ) -> WorkloadResult:
        def result(action: str, *reasons: str) -> WorkloadResult:
            count = sum(replica.device_count for replica in workload.replicas)
            every = (*decision.reasons, *reasons)
            return WorkloadResult(
                workload.name, len(workload.replicas), count, decision.verdict, action, every
            )

        if decision.verdict is not Verdict.IDLE:
            return result("none")
        obstacle = self._obstacle(workload, reader, now)
        if obstacle:
            return result("report only", obstacle)
        if not self._settings.scales_down:
            return result("would stop", "This is a dry run.")
        if self._settings.is_kill_switch_on:
            return result("report only", "The kill switch is on.")
        not_before = _notice_of(workload)
        if not_before is None or now > not_before + self._settings.notice_valid_for:
            return self._notify(workload, now, result)
        if now < not_before:
            return result("noticed", f"It is stopped after {instant_text(not_before)}.")
        return result("due")

    def _obstacle(self, workload: Workload, reader: ClusterReader, now: datetime) -> str:
        """The reason why an idle workload is only reported; "" if it may be stopped."""
        name = workload.name
        if name.kind not in STOPPABLE_KINDS or not workload.document:
            command = MANUAL_COMMANDS.get(name.kind, "")
            hint = f" To return its GPUs: {command.format(**_names(name))}" if command else ""
            return f"The pruner does not stop a {name.kind}.{hint}"
        if owner := reader.replicas_owner(workload):
            return f"{owner}; it would undo the stop."
        if until := reader.kept_until(workload, now):
            return f"It is kept until {instant_text(until)}."
        if not reader.is_opted_in(name.namespace):
            return f"Namespace {name.namespace} has not opted in (RoleBinding of {CLUSTER_ROLE})."
        if not actions.may_stop(self._client, name):
            return f"The pruner may not patch {name.kind} in namespace {name.namespace}."
        return ""

    def _notify(
        self, workload: Workload, now: datetime, result: Callable[..., WorkloadResult]
    ) -> WorkloadResult:
        """Announce a stop. The annotation is first: it holds the time of the stop."""
        not_before = now + self._settings.thresholds.grace_period
        name, text = workload.name, instant_text(not_before)
        try:
            patch = actions.annotate(workload.document, {STOP_NOTICE: text})
            patched = actions.apply_patch(self._client, name, patch)
        except KubernetesFailed as failed:
            return result("refused", f"The notice was refused: {failed.seen}")
        keep = now + timedelta(hours=8)
        message = (
            f"All GPUs of {name} were idle for "
            f"{self._settings.thresholds.duration.total_seconds() / 60:g} minutes. It is scaled to "
            f"zero after {text} unless it is used. To keep it for 8 hours: kubectl -n "
            f"{name.namespace} annotate {name.kind.lower()} {name.name} "
            f"gpu-ledger.io/keep-until={instant_text(keep)}"
        )
        if self._settings.evidence_page:
            message += f" Evidence: {self._settings.evidence_page}"
        reasons = [message]
        try:
            actions.post_event(
                self._client, name, patched, "GpuWorkloadIdle", message, now, is_warning=True
            )
        except KubernetesFailed as failed:
            reasons.append(f"The Event was not posted: {failed.seen}")
        for url in self._settings.alertmanager_urls:
            reasons += actions.post_stop_notice(url, name, message, now, not_before)
        self._record(
            name,
            "noticed",
            now,
            document=workload.document,
            reasons=reasons,
            not_before=text,
        )
        return result("noticed", f"It is stopped after {text}.")

    def _stop_all(
        self, due: Sequence[Workload], history: Sequence[PruneRecord]
    ) -> list[WorkloadResult]:
        """Stop the due workloads, after their evidence and objects were read again."""
        if not due:
            return []
        now = self._clock.now()
        hour_ago = instant_text(now - timedelta(hours=1))
        recent = sum(r.event == "stopped" and r.at > hour_ago for r in history)
        room = min(self._settings.stops_per_pass, self._settings.stops_per_hour - recent)
        evidence = self._evidence(now)
        reader = ClusterReader(self._client)
        fresh = {
            workload.name: workload
            for namespace in sorted({workload.name.namespace for workload in due})
            for workload in reader.workloads(namespace)
        }
        results: list[WorkloadResult] = []
        stopped: list[Workload] = []
        for old in due:
            workload = fresh.get(old.name)
            if workload is None or workload.uid != old.uid:
                results.append(_deleted_result(old))
                continue
            decision = self._decide(workload, evidence)
            result = self._result(workload, decision, reader, now)
            if result.action != "due":
                results.append(result)
            elif len(stopped) >= max(room, 0):
                reason = f"The limit of {self._settings.stops_per_pass} stops per pass or "
                reason += f"{self._settings.stops_per_hour} per hour is reached."
                results.append(dataclasses.replace(result, action="noticed", reasons=(reason,)))
            else:
                result = self._stop(workload, decision, evidence, result)
                results.append(result)
                stopped += [workload] if result.action == "stopped" else []
        self._verify_gone(stopped)
        return results

    def _stop(
        self, workload: Workload, decision: Decision, evidence: Evidence, result: WorkloadResult
    ) -> WorkloadResult:
        name, now = workload.name, self._clock.now()
        plan = actions.plan_stop(name, workload.document, now)
        if plan is None:
            return dataclasses.replace(result, action="none", reasons=("It is stopped already.",))
        self._record(
            name,
            "stopped",
            now,
            document=workload.document,
            reasons=list(decision.reasons),
            owner_chain=[str(owner) for owner in workload.chain],
            pods=[replica.uid for replica in workload.replicas],
            device_count=result.device_count,
            previous_state=plan.previous_state,
            evidence=self._evidence_record(workload, evidence),
        )
        try:
            patched = actions.apply_patch(self._client, name, plan.patch)
        except KubernetesFailed as failed:
            self._record_failure(workload, "not_stopped", f"The stop was refused: {failed.seen}")
            return dataclasses.replace(result, action="refused", reasons=(failed.seen,))
        message = (
            f"{decision.reasons[0]} Scaled to zero. To restore: gpu-ledger prune restore "
            f"{name.kind} {name.namespace}/{name.name}"
        )
        try:
            actions.post_event(self._client, name, patched, "GpuWorkloadStopped", message, now)
        except KubernetesFailed:
            message += " (the Event was not posted)"
        return dataclasses.replace(result, action="stopped", reasons=(message,))

    def _record_failure(self, workload: Workload, event: str, reason: str) -> None:
        """Record a failure, and post it as an Event on the workload."""
        now = self._clock.now()
        self._record(workload.name, event, now, document=workload.document, reasons=[reason])
        try:
            actions.post_event(
                self._client,
                workload.name,
                workload.document,
                "GpuWorkloadNotStopped",
                reason,
                now,
                is_warning=True,
            )
        except KubernetesFailed:
            return  # the record has the reason

    def _verify_gone(self, stopped: Sequence[Workload]) -> None:
        """Wait until the pods of stopped workloads are gone; record which are, and which stay."""
        waiting = {w.name: {replica.uid for replica in w.replicas} for w in stopped}
        deadline = self._clock.now() + timedelta(seconds=PODS_GONE_SECONDS)
        by_name = {workload.name: workload for workload in stopped}
        while waiting:
            for name in list(waiting):
                left = waiting[name] & self._pod_uids(name.namespace)
                if not left:
                    del waiting[name]
                    self._record(name, "gone", self._clock.now(), document=by_name[name].document)
            if not waiting or self._clock.now() >= deadline:
                break
            self._clock.wait_until(self._clock.now() + timedelta(seconds=POLL_SECONDS))
        for name in waiting:
            reason = f"Pods still exist {PODS_GONE_SECONDS:.0f} s after the stop."
            self._record_failure(by_name[name], "not_gone", reason)

    def _pod_uids(self, namespace: str) -> set[str]:
        pods = self._client.items(resource_path("v1", "pods", namespace))
        return {str(metadata_of(pod).get("uid")) for pod in pods}

    def _follow_stops(
        self, stops: Sequence[WorkloadStop], reader: ClusterReader
    ) -> list[WorkloadResult]:
        """Restore workloads whose opt-in ended or opt-out began; record restarts by others."""
        results = []
        for stop in stops:
            if stop.restored is not None:
                continue
            record = stop.stopped
            name = ObjectName(record.api_version, record.kind, record.namespace, record.name)
            document = reader.read(name)
            if document is None or metadata_of(document).get("uid") != record.uid:
                self._record(name, "restored", self._clock.now(), reasons=["It was deleted."])
                continue
            if STOPPED_AT not in annotations_of(document):
                reason = "It is not stopped any more."
                self._record(
                    name, "restored", self._clock.now(), document=document, reasons=[reason]
                )
                continue
            reason = self._reason_to_restore(name, document, reader)
            if reason:
                results.append(self._try_restore(name, reason))
        self._release_opt_ins(reader, {stop.stopped.namespace for stop in stops})
        return results

    def _reason_to_restore(
        self, name: ObjectName, document: Mapping[str, Any], reader: ClusterReader
    ) -> str:
        if not reader.is_opted_in(name.namespace):
            return "The namespace's opt-in was removed."
        workload = Workload(name, dict(document), (), ())
        if until := reader.kept_until(workload, self._clock.now()):
            return f"It is kept until {instant_text(until)}."
        return ""

    def _try_restore(self, name: ObjectName, reason: str) -> WorkloadResult:
        try:
            self.restore(name, reason)
        except (*KubernetesFailed, actions.NotRestored) as failed:
            seen = f"{reason} The restore was refused: {failed.seen}"
            self._record(name, "not_restored", self._clock.now(), reasons=[seen])
            return WorkloadResult(name, 0, 0, Verdict.UNKNOWN, "refused", (seen,))
        return WorkloadResult(name, 0, 0, Verdict.UNKNOWN, "restored", (reason,))

    def _release_opt_ins(self, reader: ClusterReader, namespaces: set[str]) -> None:
        """Let a deleted opt-in go once every workload of its namespace is restored."""
        open_in = {s.stopped.namespace for s in self._records.stops() if s.restored is None}
        for namespace in sorted(namespaces - open_in):
            for binding in reader.opt_ins(namespace):
                meta = metadata_of(binding)
                finalizers = meta.get("finalizers") or []
                if "deletionTimestamp" in meta and RESTORE_FINALIZER in finalizers:
                    left = [entry for entry in finalizers if entry != RESTORE_FINALIZER]
                    path = resource_path(
                        "rbac.authorization.k8s.io/v1",
                        "rolebindings",
                        namespace,
                        str(meta.get("name")),
                    )
                    patch = {"metadata": {"finalizers": left or None}}
                    self._client.merge_patch(path, patch, field_manager=FIELD_MANAGER)

    def _record_change(
        self,
        workload: Workload,
        decision: Decision,
        evidence: Evidence,
        last_events: Mapping[tuple[str, str, str], str],
        now: datetime,
    ) -> None:
        """Record that a workload became idle, or is no longer."""
        name = workload.name
        last = last_events.get((name.kind, name.namespace, name.name), "active")
        is_idle = decision.verdict is Verdict.IDLE
        was_idle = last not in ("active", "restored")
        if is_idle == was_idle or last in ("stopped", "gone"):
            return
        self._record(
            name,
            "idle" if is_idle else "active",
            now,
            document=workload.document,
            reasons=list(decision.reasons),
            owner_chain=[str(owner) for owner in workload.chain],
            evidence=self._evidence_record(workload, evidence),
        )

    def _record(
        self,
        name: ObjectName,
        event: str,
        at: datetime,
        document: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> PruneRecord:
        record = PruneRecord(
            at=instant_text(at),
            event=event,
            kind=name.kind,
            namespace=name.namespace,
            name=name.name,
            api_version=name.api_version,
            uid=str(metadata_of(document or {}).get("uid", "")),
            **fields,
        )
        self._records.append(record)
        return record

    def _evidence_record(self, workload: Workload, evidence: Evidence) -> dict[str, Any]:
        """The evidence of a workload as a record keeps it."""
        thresholds = self._settings.thresholds
        return {
            "started_at": instant_text(evidence.started_at),
            "ended_at": instant_text(evidence.ended_at),
            "queries": list(evidence.queries),
            "thresholds": {
                "activity": thresholds.activity,
                "memory_traffic": thresholds.memory_traffic,
                "power_watts": thresholds.power_watts,
            },
            "readings": [reading_row(reading) for reading in _readings(workload, evidence)],
        }


def reading_row(reading: SeriesReading) -> dict[str, Any]:
    """One reading for a table or a record; an unknown number is None."""
    row = dataclasses.asdict(reading) | {
        "device": str(reading.device),
        "signal": reading.signal.value,
    }
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in row.items()
    }


def _readings(workload: Workload, evidence: Evidence) -> list[SeriesReading]:
    pods = [replica.pod for replica in workload.replicas]
    return [reading for pod in pods for reading in evidence.readings.get(pod, ())]


def _notice_of(workload: Workload) -> datetime | None:
    text = workload.annotations.get(STOP_NOTICE)
    return instant_of(text) if text else None


def _deleted_result(workload: Workload) -> WorkloadResult:
    reason = "It was deleted or replaced before the stop."
    return WorkloadResult(workload.name, 0, 0, Verdict.UNKNOWN, "none", (reason,))


def _names(name: ObjectName) -> dict[str, str]:
    return {"namespace": name.namespace, "name": name.name}
