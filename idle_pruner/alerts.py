"""The notice of a stop as an alert of an Alertmanager.

Put here: one alert and its labels.
Not here: when a notice is given (`idle_pruner.pruner`), or HTTP (`clients.alertmanager`).
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta

from clients.alertmanager import Alert, Alertmanager, AlertmanagerFailed, peer_addresses
from idle_pruner.cluster import ObjectName
from idle_pruner.records import instant_text


def post_stop_notice(
    url: str, name: ObjectName, message: str, now: datetime, not_before: datetime
) -> list[str]:
    """Post the alert to every peer at the URL; the problems as sentences."""
    alert = Alert(
        labels={
            "alertname": "GpuWorkloadWillBeStopped",
            "namespace": name.namespace,
            "workload_kind": name.kind,
            "workload": name.name,
            "severity": "warning",
        },
        annotations={"summary": message, "stop_not_before": instant_text(not_before)},
        starts_at=now,
        # It ends by itself: the stop is an Event and a record, not an alert.
        ends_at=not_before + timedelta(minutes=5),
    )
    problems = []
    for address in peer_addresses(url):
        with closing(Alertmanager(url, address)) as peer:
            try:
                peer.post([alert])
            except AlertmanagerFailed as failed:
                problems.append(f"The alert was not posted to {peer.name}: {failed.seen}.")
    return problems
