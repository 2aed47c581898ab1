"""The bill of the design documents' pod: one seventh of an A100, in the namespace `nvidia`.

Put here: the example on a simulated fleet, with its cost calculated by hand.
Not here: the same files on a real control plane (`tests/servers/test_ledger_bills_fake_gpus.py`).
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from domain.billing_period import BillingPeriod
from fake_gpu.clock import driven, epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve
from orchestration import steps
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome
from tests.decisions_by_hand import HEADERS
from warehouse.connection import connected

pytestmark = pytest.mark.deep

EXAMPLES = Path(__file__).parents[1] / "design_examples"
PERIOD = BillingPeriod("2026-10")
RATE = ",A100-40GB,whole,EUR,3.60,2026-01-01T00:00:00Z,,agreed,Ada,2026-09-15,"
SCENARIO = """\
name: design_example
seed: 1
from: 2026-10-05T00:00:00Z
until: 2026-10-05T03:00:00Z
clusters:
  - name: lab
    nodes:
      - name: node-b
        product: A100-SXM4-40GB
        cards: 2
        mig: {strategy: single, layout: all-1g.5gb}
    quotas:
      - {namespace: NAMESPACE, hard: HARD}
    workloads:
      - name: NAME
        namespace: NAMESPACE
        kind: Pod
        containers: [{name: NAME, requests: REQUESTS}]
        pods:
          - {created: 2026-10-05T00:10:00Z, started: 2026-10-05T00:10:20Z,
             ended: 2026-10-05T01:34:20Z, node: node-b}
"""
"""The pod runs for 84 minutes."""


def test_the_pod_of_the_example_is_billed_to_its_namespace(tmp_path: Path) -> None:
    """3.60 EUR per hour × 1.4 hours × 1/7 = 0.72 EUR; the quota counts one device of one."""
    quota = yaml.safe_load((EXAMPLES / "gpu-quota.yaml").read_text("utf-8"))
    pod = yaml.safe_load((EXAMPLES / "cuda-vectoradd.yaml").read_text("utf-8"))
    [container] = pod["spec"]["containers"]
    text = SCENARIO
    for name, value in {
        "NAMESPACE": quota["metadata"]["namespace"],
        "HARD": quota["spec"]["hard"],
        "REQUESTS": container["resources"]["limits"],
        "NAME": container["name"],
    }.items():
        text = text.replace(name, str(value))
    (tmp_path / "scenario.yaml").write_text(text, encoding="utf-8")
    fleet = build_fleet(load_scenario(str(tmp_path / "scenario.yaml")))
    [labels] = {tuple(state.labels.items()) for state in fleet.clusters[0].nodes[0].states}
    assert pod["spec"]["nodeSelector"].items() <= dict(labels).items()
    clock = driven(epoch(fleet.ended_at) + timedelta(hours=3))
    with serve(fleet, clock) as running:
        home = make_home(tmp_path / "home", fleet, running.thanos_url, running.kubernetes_urls)
        (home.decisions / "rates.csv").write_text(f"{HEADERS['rates']}\n{RATE}\n", encoding="utf-8")
        table = home.decisions / "clusters.csv"
        table.write_text(table.read_text().replace(",both,", ",samples,"), encoding="utf-8")
        opened = OpenHome(home, clock)
        steps.pull(opened, PERIOD.interval)
        clock.advance_to(PERIOD.ended_at + timedelta(days=3))
    steps.refresh(opened, PERIOD)
    with connected(home.warehouse_path, read_only=True) as connection:
        tenants = connection.execute(
            "select tenant, belongs_to, mig_profile, running_device_seconds, cost_nanos, currency"
            " from marts.fct_tenant_periods"
        ).fetchall()
        quotas = connection.execute(
            "select resource, max(hard_count), max(used_count), max(allocated_count_max)"
            " from marts.fct_quotas where tenant = 'nvidia' group by all"
        ).fetchall()
    assert tenants == [("nvidia", "tenant", "1g.5gb", 5_040, 720_000_000, "EUR")]
    assert quotas == [("nvidia.com/gpu", 1, 1, 1)]
