"""The collector of one cluster, made from a home's settings; the driver of a simulated clock.

Put here: the connection to an API server, the collector's options, the stops of a driven clock.
Not here: collecting (`ingestion.kubernetes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from clients.kubernetes import WATCH_SECONDS, KubernetesClient
from domain.errors import InvalidSetting
from domain.interval import HOUR, Interval, format_instant, hour_of
from ingestion.kubernetes.collector import Collector, CollectorSettings
from ingestion.kubernetes.projections import POD_LABELS
from ingestion.kubernetes.watcher import Retry
from orchestration.fleet_clock import FleetClock, SimulationStopped
from orchestration.open_home import OpenHome

# A driven clock advances by an hour per step: watches of half an hour would begin at every step.
DRIVEN_WATCH_SECONDS = 86_400
# Under a driven clock an outage lasts until the next step, not for real seconds.
DRIVEN_RETRY_SECONDS = (0.01, 0.05)


STEP_SECONDS_LIMIT = 60.0
"""A collector handles a step in a millisecond; one that needs a minute has failed."""

Progress = Callable[[int, int, str], None]


def client_of(opened: OpenHome, cluster_id: str, *, driven: bool = False) -> KubernetesClient:
    """A client of the cluster's API server, by its settings."""
    kubernetes = opened.settings.cluster(cluster_id).kubernetes
    if kubernetes is None:
        raise InvalidSetting(
            where=str(opened.home.config_path),
            seen=f"no [clusters.{cluster_id}.kubernetes]",
            why="a collector watches the API server that this table names",
            remedy="add the table with url, token_file and ca_file, then run `gpu-ledger "
            "decisions check`",
        )
    access = kubernetes.connection.access
    return KubernetesClient(access, watch_seconds=DRIVEN_WATCH_SECONDS if driven else WATCH_SECONDS)


def collector_of(opened: OpenHome, cluster_id: str, *, lockstep: bool = False) -> Collector:
    """The collector of a cluster; in lockstep a driven clock waits for it."""
    return Collector(
        client_of(opened, cluster_id, driven=lockstep),
        opened.spool(cluster_id),
        opened.clock,
        CollectorSettings(
            cluster_id,
            pod_labels=opened.settings.pod_labels or POD_LABELS,
            retry=Retry(*DRIVEN_RETRY_SECONDS) if lockstep else Retry(),
            lockstep=lockstep,
        ),
    )


def drive(
    clock: FleetClock,
    collectors: Sequence[Collector],
    end: datetime,
    progress: Progress | None = None,
) -> None:
    """Advance a fleet's clock hour by hour; at each stop wait for the collectors.

    It also stops a second before each full hour, so that events arrive in the hour in which they
    happened.
    """
    now = clock.now()
    hours = [at for at in Interval(hour_of(now), end).hours() if at > now]
    found = sorted(
        {*hours, *(at - timedelta(seconds=1) for at in hours if at - now > HOUR / 2), end}
    )
    for number, instant in enumerate([now, *found]):
        if instant > now:
            clock.advance_to(instant)
        for collector in collectors:
            if not collector.wait_until_recorded(0, STEP_SECONDS_LIMIT):
                cluster_id = collector.settings.cluster_id
                raise collector_stuck(cluster_id, instant, collector.health.trouble)
        if progress:
            progress(number, len(found), f"{instant:%d %b %H:%M}")


def collector_stuck(
    cluster_id: str, instant: datetime, trouble: Mapping[str, str]
) -> SimulationStopped:
    """The error for a collector that did not reach an instant."""
    reasons = "; ".join(f"{name}: {why}" for name, why in sorted(trouble.items())) or "no error"
    return SimulationStopped(
        f"the collector of {cluster_id}, at {format_instant(instant)}",
        f"it did not catch up within {STEP_SECONDS_LIMIT:.0f} s ({reasons})",
    )
