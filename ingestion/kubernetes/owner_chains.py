"""The UID of the namespace of a pod, and its owners up to the workload that users created.

Put here: facts that are looked up once, and hold for each later observation.
Not here: the lookups (`collector`), or tenants (a decision, not a fact).
"""

from __future__ import annotations

from collections.abc import Iterator

from ingestion.kubernetes.projections import Document, Projection

# Owners are few (a ReplicaSet per roll-out, a Job per run); one is about 300 bytes.
OWNERS_LIMIT = 100_000
# The longest chain in use has six: ReplicaSet, Deployment, Revision, Configuration, Service,
# InferenceService. Users write owner references themselves, so a chain can be endless or a circle.
CHAIN_LIMIT = 10


class OwnerChains:
    """Owners by UID, and the UID of each existing namespace."""

    def __init__(self) -> None:
        self.owners: dict[str, Projection] = {}
        self._namespace_uids: dict[str, str] = {}

    def note_owner(self, uid: str, projection: Projection) -> None:
        while len(self.owners) >= OWNERS_LIMIT:
            del self.owners[next(iter(self.owners))]
        self.owners[uid] = projection

    def note_namespace(self, projection: Document, *, there: bool) -> None:
        name, uid = projection["metadata"].get("name", ""), projection["metadata"].get("uid", "")
        if there:
            self._namespace_uids[name] = uid
        elif self._namespace_uids.get(name) == uid:
            del self._namespace_uids[name]

    def of_pod(self, projection: Document) -> dict[str, str]:
        """The facts beside the pod itself, when it is observed."""
        meta = projection["metadata"]
        kind, name = self._workload(meta)
        return {
            "namespace_uid": self._namespace_uids.get(meta.get("namespace", ""), ""),
            "workload_kind": kind,
            "workload_name": name,
        }

    def next_unknown(self, owner: Projection) -> Projection:
        """The first owner, from this one upwards, that was not looked up yet; {} when all were."""
        for link in self._chain(owner):
            if link.get("uid") and link["uid"] not in self.owners:
                return link
        return {}

    def _chain(self, owner: Projection) -> Iterator[Projection]:
        """An owner reference and those above it, as far as they are known."""
        for _ in range(CHAIN_LIMIT):
            if not owner:
                return
            yield owner
            known = self.owners.get(owner.get("uid", ""), {})
            owner = known.get("metadata", {}).get("owner", {})

    def _workload(self, meta: Projection) -> tuple[str, str]:
        owner: Projection = meta.get("owner", {})
        if not owner:
            return "Pod", meta.get("name", "")
        *below, top = self._chain(owner)
        if not below and top.get("kind") == "ReplicaSet":
            # A Deployment names its ReplicaSets `<deployment>-<pod-template-hash>`.
            suffix = "-" + meta.get("labels", {}).get("pod-template-hash", "")
            name = top.get("name", "")
            if len(suffix) > 1 and name.endswith(suffix):
                return "Deployment", name.removesuffix(suffix)
        return top.get("kind", ""), top.get("name", "")
