"""Which container holds which device: from the kubelet's list, or as its device manager assigns.

Put here: the two ways, and devices that are taken but belong to no container of the list.
Not here: calls of the kubelet (`plugin`), or how busy a holder makes its device (`topology`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from domain.request import effective_request_of_pod
from fake_gpu.cluster.hardware import OfferedDevice
from fake_gpu.cluster.kubelet_pb2 import ListPodResourcesResponse

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Holding:
    """A pod that holds an offered device; without a container the device is only taken."""

    offer_id: str
    namespace: str
    pod: str
    uid: str
    container: str = ""


def is_active(pod: Document) -> bool:
    """Whether a pod holds devices: it is bound to a node and has not ended."""
    is_bound = bool(pod.get("spec", {}).get("nodeName"))
    return is_bound and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def listed_holdings(
    listed: ListPodResourcesResponse, pods: Sequence[Document], allocated: Sequence[str]
) -> list[Holding]:
    """The holdings of the kubelet's list, and further devices that pods have taken.

    A device that only an init container used stays taken until the pod ends, and is in no container
    of the list. `allocated` are the device IDs that the kubelet was given, the oldest first; those
    that are in no container go to the pods whose requests exceed their list.
    """
    by_name = {(p["metadata"]["namespace"], p["metadata"]["name"]): p for p in pods}
    found: list[Holding] = []
    for pod in listed.pod_resources:
        known = by_name.get((pod.namespace, pod.name))
        uid = known["metadata"]["uid"] if known else ""
        for container in pod.containers:
            for devices in container.devices:
                found += [
                    Holding(offer_id, pod.namespace, pod.name, uid, container.name)
                    for offer_id in devices.device_ids
                ]
    named = {holding.offer_id for holding in found}
    left = [offer_id for offer_id in allocated if offer_id not in named]
    for pod in sorted(filter(is_active, pods), key=_bound_at):
        metadata = pod["metadata"]
        held = sum(h.uid == metadata["uid"] for h in found)
        missing = sum(effective_request_of_pod(pod["spec"], _is_extended).values()) - held
        if held or missing <= len(left):
            chosen, left = left[: max(missing, 0)], left[max(missing, 0) :]
            found += [
                Holding(offer_id, metadata["namespace"], metadata["name"], metadata["uid"])
                for offer_id in chosen
            ]
    return found


def assigned_holdings(
    offers: Sequence[OfferedDevice], pods: Sequence[Document], before: Sequence[Holding]
) -> list[Holding]:
    """The holdings on a node without a kubelet, as a kubelet's device manager would assign them.

    Holdings of pods that are still there are kept. A new pod's containers get the first free
    devices, in the order in which the kubelet starts them: a container may reuse the devices of the
    init containers before it, a sidecar keeps its own.
    """
    offered = {offer.offer_id for offer in offers}
    active = sorted(filter(is_active, pods), key=_bound_at)
    uids = {pod["metadata"]["uid"] for pod in active}
    found = [h for h in before if h.uid in uids and h.offer_id in offered]
    known = {holding.uid for holding in found}
    held = {holding.offer_id for holding in found}
    for pod in active:
        if pod["metadata"]["uid"] in known:
            continue
        free = [offer for offer in offers if offer.offer_id not in held]
        new = _assign(pod, free)
        held |= {holding.offer_id for holding in new}
        found += new
    return found


def _assign(pod: Document, free: Sequence[OfferedDevice]) -> list[Holding]:
    metadata, spec = pod["metadata"], pod["spec"]
    identity = (metadata["namespace"], metadata["name"], metadata["uid"])
    left = list(free)
    reusable: list[OfferedDevice] = []
    holders: dict[str, str] = {}
    containers = [(c, True) for c in spec.get("initContainers") or ()]
    containers += [(c, False) for c in spec.get("containers") or ()]
    for container, is_init in containers:
        keeps = not is_init or container.get("restartPolicy") == "Always"
        for resource, count in effective_request_of_pod(
            {"containers": [container]}, _is_extended
        ).items():
            again = [o for o in reusable if o.resource == resource][:count]
            fresh = [o for o in left if o.resource == resource][: count - len(again)]
            if len(again) + len(fresh) < count:
                continue  # the kubelet would refuse the pod; the scheduler does not bind such a pod
            left = [o for o in left if o not in fresh]
            chosen = again + fresh
            if keeps:
                reusable = [o for o in reusable if o not in chosen]
                holders |= {offer.offer_id: container["name"] for offer in chosen}
            else:
                reusable += fresh
                holders |= {offer.offer_id: "" for offer in chosen}
    return [Holding(offer_id, *identity, container) for offer_id, container in holders.items()]


def _bound_at(pod: Document) -> tuple[str, str, str]:
    conditions = pod.get("status", {}).get("conditions") or ()
    bound = [c.get("lastTransitionTime") for c in conditions if c.get("type") == "PodScheduled"]
    metadata = pod["metadata"]
    at = (bound and bound[0]) or metadata.get("creationTimestamp") or ""
    return at, metadata["namespace"], metadata["name"]


def _is_extended(resource: str) -> bool:
    return resource.startswith(("nvidia.com/", "amd.com/"))


def requests_devices(pod: Document) -> Mapping[str, int]:
    """The requests of a pod for simulated resources."""
    return effective_request_of_pod(pod.get("spec", {}), _is_extended)
