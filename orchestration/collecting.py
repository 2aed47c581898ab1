"""A collector for one cluster of a home: who is asked, and where its journal is kept.

Put here: putting a collector together from settings.
Not here: collecting (`ingestion.kubernetes`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clients.kubeconfig import ClusterAccess
from clients.kubernetes import WATCH_SECONDS, KubernetesClient
from domain.errors import WrongUse
from orchestration.open_home import OpenHome

if TYPE_CHECKING:
    from ingestion.kubernetes.collector import Collector

# A driven clock goes an hour a step: watches that end every half hour would begin at every step.
DRIVEN_WATCH_SECONDS = 86_400
# Under a driven clock an outage lasts until the next step, not for real seconds.
DRIVEN_RETRY_SECONDS = (0.01, 0.05)


class NoApiServer(WrongUse):
    """The settings do not say where the cluster's API server is."""

    code = "KUBE-010"

    def __init__(self, config: Path, cluster_id: str) -> None:
        super().__init__(
            where=str(config),
            seen=f"no [clusters.{cluster_id}.kubernetes]",
            why="a collector watches one cluster's API server and must know where it is",
            remedy="add that table with its url, token_file and ca_file",
        )


def client_of(
    opened: OpenHome, cluster_id: str, *, url: str = "", driven: bool = False
) -> KubernetesClient:
    """Asks the API server of a cluster as its settings say, or the same server at another URL."""
    kubernetes = opened.settings.cluster(cluster_id).kubernetes
    if kubernetes is None:
        raise NoApiServer(opened.home.config_path, cluster_id)
    server = kubernetes.connection
    access = ClusterAccess(
        url or server.url,
        token_file=_file(server.token_file),
        ca_file=_file(server.ca_file),
        certificate_file=_file(server.client_certificate_file),
        key_file=_file(server.client_key_file),
        proxy=server.proxy,
    )
    return KubernetesClient(access, watch_seconds=DRIVEN_WATCH_SECONDS if driven else WATCH_SECONDS)


def collector_of(
    opened: OpenHome, cluster_id: str, *, url: str = "", lockstep: bool = False
) -> Collector:
    """The collector of a cluster; in lockstep where a driven clock waits for it."""
    from ingestion.kubernetes.collector import Collector, CollectorSettings
    from ingestion.kubernetes.projections import POD_LABELS
    from ingestion.kubernetes.watcher import Retry

    return Collector(
        client_of(opened, cluster_id, url=url, driven=lockstep),
        opened.spool(cluster_id),
        opened.clock,
        CollectorSettings(
            cluster_id,
            pod_labels=opened.settings.pod_labels or POD_LABELS,
            retry=Retry(*DRIVEN_RETRY_SECONDS) if lockstep else Retry(),
            lockstep=lockstep,
        ),
    )


def _file(name: str) -> Path | None:
    return Path(name) if name else None
