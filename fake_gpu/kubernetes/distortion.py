"""Pods as faulty kubelets write them: starts rewritten, ends before starts.

Put here: faults in a pod's document, for all its readers.
Not here: faults of requests and streams (`request_faults`, `watch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import Fault
from fake_gpu.kubernetes.faults import text, whole
from fake_gpu.kubernetes.forms import Document, time_text


class Distortion:
    """The faults of one cluster's kubelets, applied to documents that are not shared yet."""

    def __init__(self, cluster_id: str, faults: Iterable[Fault], ledger: FaultLedger) -> None:
        kinds = ("start_rewritten", "finished_before_started")
        self._faults = [f for f in faults if f.kind in kinds and f.cluster_id in ("", cluster_id)]
        self._cluster_id = cluster_id
        self._ledger = ledger

    def __bool__(self) -> bool:
        return bool(self._faults)

    def apply(self, document: Document) -> Document:
        """Distort the ends in the time of a fault, for as long as the pod exists."""
        for fault in self._faults:
            if not _concerns(fault, document):
                continue
            for ended in _terminated(document):
                finished_at = _second(ended["finishedAt"])
                before = dict(ended)
                if fault.covers(self._cluster_id, finished_at):
                    _distort(fault, ended)
                if ended != before:
                    name = document["metadata"]["name"]
                    self._ledger.fire(fault.fault_id, self._cluster_id, finished_at, name)
        return document


def _concerns(fault: Fault, document: Document) -> bool:
    meta = document["metadata"]
    node = text(fault, "node")
    namespace = text(fault, "namespace")
    return (
        meta["name"].startswith(text(fault, "pod"))
        and namespace in ("", meta["namespace"])
        and node in ("", document["spec"].get("nodeName", ""))
    )


def _terminated(document: Document) -> Iterator[Document]:
    for status in document["status"].get("containerStatuses", []):
        for state in (status["state"], status["lastState"]):
            if "terminated" in state:
                yield state["terminated"]


def _distort(fault: Fault, ended: Document) -> None:
    if fault.kind == "start_rewritten":
        ended["startedAt"] = ended["finishedAt"]
    else:
        behind = whole(fault, "seconds", 60)
        ended["finishedAt"] = time_text(_second(ended["startedAt"]) - behind)


def _second(time: str) -> int:
    return int(datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())
