"""The notice of a stop as an alert of an Alertmanager.

Put here: one alert and its labels.
Not here: when a notice is given (`idle_pruner.pruner`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

import httpx

from clients.http_transport import make_transport
from idle_pruner.cluster import ObjectName
from idle_pruner.records import instant_text

TIMEOUT_SECONDS = 10.0


def post_stop_notice(
    url: str,
    name: ObjectName,
    message: str,
    now: datetime,
    not_before: datetime,
    transport: httpx.BaseTransport | None = None,
) -> str:
    """Post the alert to one Alertmanager; the problem as a sentence, or "" if it was accepted."""
    alert = {
        "labels": {
            "alertname": "GpuWorkloadWillBeStopped",
            "namespace": name.namespace,
            "workload_kind": name.kind,
            "workload": name.name,
            "severity": "warning",
        },
        "annotations": {"summary": message, "stop_not_before": instant_text(not_before)},
        "startsAt": instant_text(now),
        # It ends by itself: the stop is an Event and a record, not an alert.
        "endsAt": instant_text(not_before + timedelta(minutes=5)),
    }
    try:
        with (
            httpx.Client(
                timeout=TIMEOUT_SECONDS, transport=transport or make_transport(url)
            ) as client,
            client.stream("POST", f"{url.rstrip('/')}/api/v2/alerts", json=[alert]) as response,
        ):
            pass  # the status says whether the alert was accepted
    except httpx.HTTPError as cause:
        return f"The alert was not posted to {url}: {type(cause).__name__}."
    if response.status_code != 200:
        return f"The alert was refused by {url}: HTTP {response.status_code}."
    return ""
