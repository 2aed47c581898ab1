"""A cluster that has samples of every metric in the pull's queries within two hours.

Put here: the scenario: every kind of device, and every state of a pod.
Not here: the queries.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from domain.clock import Clock, StoppedClock
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.source import FleetSeries
from fake_gpu.scenario.load import read_scenario

HOURS = 2
INTERVAL = 60  # seconds between scrapes
# In the middle of an hour, with no event a minute before and after it.
QUIET_SECONDS = 75 * 60

TEXT = """\
name: asked
from: 2026-10-01T00:00:00Z
until: 2026-10-01T02:00:00Z
clusters:
  - name: asked
    # A file of samples has no staleness markers.
    monitoring: {prometheus_replicas: 1, scrape_interval: 60s, staleness_markers: false}
    nodes:
      - {name: control, roles: [control-plane]}
      - {name: mig, product: NVIDIA-H100-80GB-HBM3, cards: 1,
         mig: {layout: {all: {1g.10gb: 2, 3g.40gb: 1}}}, dcgm_names: both}
      - {name: sliced, product: Tesla-T4, cards: 1, sharing: {replicas: 4}}
      - name: whole
        product: NVIDIA-A100-SXM4-80GB
        cards: 4
        dcgm_names: both
        changes: [{at: +30m, cordon: true}, {at: +55m, cordon: false}]
        incidents: [{card: 3, from: +40m, until: +50m, xid: 79}]
      - {name: cpx, product: AMD_Instinct_MI300X_OAM, cards: 1, partition: cpx_nps4}
      - {name: dra, product: NVIDIA-B200, cards: 2, dra: true}
    quotas: [{namespace: a, hard: {requests.nvidia.com/gpu: 8}}]
    workloads:
      - {name: slice, namespace: a, requests: {nvidia.com/mig-1g.10gb: 1}, utilisation: 40}
      - {name: half, namespace: a, kind: StatefulSet, requests: {nvidia.com/mig-3g.40gb: 1}}
      - {name: shared, namespace: b, replicas: 3, requests: 1, node: sliced, utilisation: 30}
      - {name: partition, namespace: b, replicas: 2, requests: {amd.com/gpu: 1}, utilisation: 70}
      - {name: claimed, namespace: c, claims: [{device_class: gpu.nvidia.com}]}
      - {name: together, namespace: c, replicas: 2,
         claims: [{device_class: gpu.nvidia.com, shared: team}]}
      - {name: waits, namespace: b, kind: Pod, requests: 99}
      - {name: nightly, namespace: a, kind: CronJob, requests: 1, node: whole,
         arrivals: {at: [+10m, +50m]}, lifetime: 5m, keep: 20m}
      - name: prepared
        namespace: a
        kind: Job
        lifetime: 3h
        node: whole
        containers:
          - {name: prep, kind: init, requests: 2, takes: 2m}
          - {name: proxy, kind: sidecar, requests: 1}
          - {name: main, requests: 1}
      - name: exact
        namespace: a
        kind: Pod
        requests: 1
        grace_seconds: 600
        pods:
          # Restarts, and an end that takes its whole grace period.
          - {created: +5m, node: whole, cards: [2], deleted: +100m, gone: +109m,
             runs: [{from: +6m, until: +20m, exit_code: 1}, {from: +25m, until: +109m}]}
"""


def queried_fleet() -> Fleet:
    """The fleet begins with its first hour; there are no samples before it."""
    fleet = build_fleet(read_scenario(TEXT, "asked.yaml", None))
    begun = [replace(each, created_at=fleet.started_at) for each in fleet.clusters]
    return replace(fleet, clusters=tuple(begun))


def queried_series(clock: Clock | None = None) -> FleetSeries:
    """Its samples; all of them without a clock."""
    fleet = queried_fleet()
    end = StoppedClock(datetime.fromtimestamp(fleet.ended_at, UTC))
    histories = {each.cluster_id: ObjectHistory(each) for each in fleet.clusters}
    return FleetSeries(fleet, histories, clock or end)
