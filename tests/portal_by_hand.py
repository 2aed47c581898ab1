"""A portal on snapshots of marts written by hand, for tests of pages and of the API.

Put here: the home, the callers, and requests.
Not here: expectations.

The tenant `vision` has two pods of one card each for three hours of 2 USD; the last hour is not
complete, and "now" is the hour before it. One pod is idle in the last hour and has no samples
there. `neighbour` has one pod.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from domain.clock import StoppedClock
from portal.access import Hosts
from portal.callers import Authority
from portal.site import make_site
from portal.tokens import FILE, TokenFile, create_token
from portal.visits import PortalSettings, RequestLimits
from tests.asgi import Client
from tests.marts_in_memory import START, fill
from warehouse.about import AboutPeriod
from warehouse.connection import connected
from warehouse.home import Home
from warehouse.snapshot_reader import Snapshots
from warehouse.snapshots import BudgetStep, IssuedDocument, StoppedWorkload, write_snapshots

HOUR = timedelta(hours=1)
NOW = datetime(2026, 10, 1, 4, tzinfo=UTC)
OWN, OTHER = "vision", "neighbour"
TWO_USD = Decimal(2_000_000_000)
INVOICE = b"%PDF-1.7 the invoice"
HOSTS = dataclasses.replace(Hosts.of("127.0.0.1"), names=frozenset({"fake"}))
HOSTILE = '<script>alert("x")</script>'


def about(amounts: str = "estimated") -> AboutPeriod:
    return AboutPeriod("2026-10", amounts, START + 2 * HOUR, START + 3 * HOUR, "ab" * 32, 1, 1)


def pod_rows(
    tenant: str, uid: str, *, pod_name: str = "", hours: int = 3, cost: Decimal = TWO_USD
) -> dict[str, list[dict[str, Any]]]:
    """The rows of one pod on one H100: `hours` hours of that cost each."""
    named = {"tenant": tenant, "pod_uid": uid, "pod_name": pod_name or f"train-{uid}"}
    workload = {"workload_kind": "Job", "workload_name": f"train-{uid}"}
    shape = {"gpu_class": "H100-80GB", "mig_profile": "whole", "currency": "USD"}
    whole = {
        "device_count": 1,
        "weight_numerator": 1,
        "weight_denominator": 1,
        "compute_share_numerator": 1,
        "compute_share_denominator": 1,
    }
    return {
        "fct_pod_hours": [
            named
            | workload
            | shape
            | whole
            | {
                "belongs_to": "tenant",
                "cluster_id": "c1",
                "node_name": "gpu-1",
                "hour_started_at": START + n * HOUR,
                "segment_started_at": START + n * HOUR,
                "segment_ended_at": START + (n + 1) * HOUR,
                "state": "running",
                "running_seconds": 3600,
                "billable_seconds": 3600,
                "lifecycle_seconds": 3600,
                "sampled_seconds": 0 if n == 2 and uid == "b" else 3600,
                "method": "disputed" if n == 2 and uid == "b" else "confirmed",
                "method_reason": "absent" if n == 2 and uid == "b" else "agree",
                "cost_nanos": cost,
            }
            for n in range(hours)
        ],
        "fct_gpu_health": [
            named
            | {
                "billing_period": "2026-10",
                "cluster_id": "c1",
                "node_name": "gpu-1",
                "device_uuid": f"GPU-{uid}",
                "hour_started_at": START,
                "problem": "xid",
                "observed": 79,
                "is_new": True,
                "is_fault_of_provider": True,
                "namespace": named["tenant"],
                "running_seconds": 3600,
                "cost_nanos": cost,
                "currency": "USD",
            }
        ],
        "fct_gpu_use": [
            named
            | {
                "cluster_id": "c1",
                "node_name": "gpu-1",
                "device_uuid": f"GPU-{uid}",
                "hour_started_at": START + n * HOUR,
                "allocated_seconds": 3600,
                "use_millionths_average": 0 if n == 2 else 600_000,
                "is_idle": n == 2 and uid == "b",
                "idle_seconds": 3600 if n == 2 and uid == "b" else 0,
                "idle_nanos": cost if n == 2 and uid == "b" else Decimal(0),
            }
            for n in range(hours)
        ],
        "dim_pod_labels": [
            {"cluster_id": "c1", "pod_uid": uid, "label_key": "team", "label_value": f"t-{uid}"}
        ],
    }


def tenant_rows(tenant: str, cost: Decimal) -> dict[str, list[dict[str, Any]]]:
    return {
        "dim_tenants": [{"tenant": tenant, "belongs_to": "tenant"}],
        "fct_charges": [
            {
                "tenant": tenant,
                "belongs_to": "tenant",
                "currency": "USD",
                "device_seconds": 6 * 3600,
                "cost_nanos": cost,
            }
        ],
        "fct_forecasts": [
            {
                "subject": "tenant",
                "tenant": tenant,
                "currency": "USD",
                "cost_nanos": cost,
                "forecast_nanos": cost * 100,
                "forecast_low_nanos": cost * 50,
                "forecast_high_nanos": cost * 200,
                "forecast_method": "by hand",
                "has_budget": True,
                "budget_nanos": cost * 10,
                "budget_used_millionths": 100_000,
            }
        ],
        "fct_quotas": [
            {
                "tenant": tenant,
                "cluster_id": "c1",
                "resource": "nvidia.com/gpu",
                "hour_started_at": START + 2 * HOUR,
                "hard_count": 8,
                "used_count": 2,
                "allocated_count_max": 2,
            }
        ],
    }


def fleet_rows() -> dict[str, list[dict[str, Any]]]:
    at = {"cluster_id": "c1", "hour_started_at": START + HOUR}
    counts = {"active_worker_nodes": 1, "active_worker_nodes_max": 1, "how_known": "by_devices"}
    most = {"sum_of_node_max": 3, "sum_of_node_max_bound": 3, "simultaneous_max": 3}
    cards = {"gpu_count_max": 3, "gpu_count_max_bound": 3, "how_known": "by_devices"}
    share = {f"{term}_share_seconds": Decimal(0) for term in ("held", "unsold", "unhealthy")}
    return {
        "dim_clusters": [{"cluster_id": "c1", "cluster_name": "east"}],
        "fct_coverage": [
            {
                "cluster_id": "c1",
                "source": source,
                "hour_started_at": START + n * HOUR,
                "outcome": "ok" if n < 2 else "degraded",
                "reason": "" if n < 2 else "1800 of 3600 s were watched",
            }
            for source in ("kubernetes", "thanos")
            for n in range(3)
        ],
        "fct_cluster_hours": [at | counts | most | {"gpu_capacity": 8}],
        "fct_fleet_hours": [
            {"hour_started_at": START + HOUR, "cluster_count": 1, "gpu_capacity": 8} | counts | most
        ],
        "fct_node_hours": [at | cards | {"node_name": "gpu-1", "gpu_capacity": 8}],
        "fct_node_share_hours": [
            at
            | share
            | {
                "node_name": "gpu-1",
                "gpu_class": "H100-80GB",
                "dimension": "compute",
                "share_denominator": 7,
                "installed_share_seconds": Decimal(8 * 7 * 3600),
                "running_share_seconds": Decimal(3 * 7 * 3600),
                "idle_share_seconds": Decimal(5 * 7 * 3600),
            }
        ],
        "fct_node_class_hours": [
            at
            | {
                "node_name": "gpu-1",
                "gpu_class": "H100-80GB",
                "mig_profile": "whole",
                "device_capacity": 8,
                "device_allocatable": 8,
            }
        ],
        "dim_devices": [
            {
                "cluster_id": "c1",
                "node_name": "gpu-1",
                "device_uuid": uuid,
                "gpu_class": "H100-80GB",
                "mig_profile": "whole",
                "device_count": 1,
                "how_known": "telemetry",
                "last_seen_at": START + 3 * HOUR,
            }
            for uuid in ("GPU-a", "GPU-b", "GPU-n", "GPU-free")
        ],
        "rpt_ccsp_hours": [
            at
            | cards
            | {
                "cluster_name": "east",
                "node_name": "gpu-1",
                "measurement": "measured",
                "active_worker_nodes": 1,
                "active_worker_nodes_max": 1,
                "cluster_gpu_count_max": 3,
                "cluster_gpu_count_max_bound": 3,
                "cluster_how_known": "by_devices",
            }
        ],
    }


RATE: dict[str, Any] = {
    "billing_period": "2026-10",
    "cluster_id": "",
    "gpu_class": "H100-80GB",
    "mig_profile": "whole",
    "currency": "USD",
    "rate_nanos_per_hour": 3 * 10**9,
    "valid_from": START,
    "valid_until": START + 31 * 24 * HOUR,
}
"""A row of dim_rates: the price of the cards that `fleet_rows` has."""


def merged(*parts: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    names = {name for part in parts for name in part}
    return {name: [row for part in parts for row in part.get(name, ())] for name in names}


def marts_of(neighbours_cost: Decimal = TWO_USD, own_pod: str = "") -> dict[str, list[Any]]:
    return merged(
        fleet_rows(),
        tenant_rows(OWN, TWO_USD * 6),
        tenant_rows(OTHER, neighbours_cost * 3),
        pod_rows(OWN, "a", pod_name=own_pod),
        pod_rows(OWN, "b"),
        pod_rows(OTHER, "n", cost=neighbours_cost),
    )


def invoice_of(home: Home, tenant: str, number: str) -> IssuedDocument:
    """An invoice with its one file."""
    folder = home.documents / "2026-10" / "tenants" / tenant
    folder.mkdir(parents=True, exist_ok=True)
    body = INVOICE + tenant.encode()
    (folder / f"{number}.pdf").write_bytes(body)
    files = [(f"{number}.pdf", hashlib.sha256(body).hexdigest())]
    return IssuedDocument(
        "2026-10", tenant, number, "invoice", "Issued", "USD", "12.00", START, files
    )


def step_of(tenant: str, *, reached: bool = True) -> BudgetStep:
    """A budget of 20 USD, of which 12 are spent."""
    return BudgetStep(
        billing_period="2026-10",
        tenant=tenant,
        budget="month",
        source="decisions",
        workload_kind="",
        workload_name="",
        label_key="",
        label_value="",
        currency="USD",
        amount_nanos=20_000_000_000,
        cost_nanos=12_000_000_000,
        forecast_nanos=2_976_000_000_000,
        forecast_method="",
        rate_nanos_per_hour=4_000_000_000,
        spent_at=START + 5 * HOUR,
        counted_until=START + 3 * HOUR,
        step_kind="actual",
        step_pct=50,
        state="reached" if reached else "not reached",
        reached_at=START + 3 * HOUR if reached else None,
        delivered_at=None,
    )


def stop_of(tenant: str, restored_at: datetime | None) -> StoppedWorkload:
    """A stop of two devices at the start, of 3.60 USD an hour."""
    return StoppedWorkload(
        *(tenant, "Deployment", f"model-{tenant}", 2, START, restored_at),
        hourly_cost="3.6",
        currency="USD",
        reason="All 2 devices of 2 replicas idle for 30 minutes.",
    )


def write(
    home: Home,
    marts: Mapping[str, Sequence[Any]],
    amounts: str = "estimated",
    tenants: Sequence[str] = (OWN, OTHER),
) -> None:
    """The warehouse and the snapshots of a home."""
    write_warehouse(home, marts)
    write_snapshots_of(home, amounts, tenants)


def write_warehouse(home: Home, marts: Mapping[str, Sequence[Any]]) -> None:
    home.warehouse_path.unlink(missing_ok=True)
    with connected(home.warehouse_path) as connection:
        connection.execute("create schema marts")
        fill(connection, "marts", marts)
        connection.execute("create schema quality")
        connection.execute(
            "create table quality.coverage_statuses as select billing_period, cluster_id, source, "
            "hour_started_at, if(outcome = 'ok', 'complete', outcome) as state, reason "
            "from marts.fct_coverage"
        )
        connection.execute(
            "create table quality.findings as select '2026-10' as billing_period, "
            "'GAP-001' as code, 'hour_not_measured' as name, true as blocks, "
            "'c1' as cluster_id, 'cluster c1, 02:00 to 03:00' as found_where, '1 hour' as seen, "
            "'gpu-ledger pull' as what_to_do"
        )


def write_snapshots_of(
    home: Home, amounts: str = "estimated", tenants: Sequence[str] = (OWN, OTHER)
) -> None:
    """The snapshots of the warehouse of a home, with documents, budgets and stops of tenants."""
    numbers = {OWN: "INV-000001", OTHER: "INV-000002"}
    documents = [invoice_of(home, tenant, numbers[tenant]) for tenant in tenants]
    steps = [step_of(tenant, reached=tenant == OWN) for tenant in tenants]
    stops = [stop_of(tenant, START + HOUR if tenant == OWN else None) for tenant in tenants]
    write_snapshots(home, [about(amounts)], documents, [], steps, stops)


@dataclass
class Portal:
    """A portal in this process, and its callers' tokens."""

    home: Home
    settings: PortalSettings
    client: Client
    tokens: Mapping[str, str]

    def get(self, path: str, caller: str = OWN, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[caller]}"} if caller else {}
        headers |= options.pop("headers", {})
        return self.client.get(path, headers=headers, **options)


def portal_at(
    folder: Path,
    marts: Mapping[str, Sequence[Any]] | None = None,
    authority: Authority | None = None,
    amounts: str = "estimated",
    tenants: Sequence[str] = (OWN, OTHER),
) -> Portal:
    home = Home.create(folder)
    write(home, marts if marts is not None else marts_of(), amounts, tenants)
    return portal_of(home, home.path / FILE, (OWN, OTHER), authority)


def portal_of(
    home: Home, path: Path, tenants: Sequence[str], authority: Authority | None = None
) -> Portal:
    """A portal on the snapshots of a home, with a file of tokens of these tenants at `path`."""
    tokens = {
        **{tenant: create_token(path, "tenant", tenant, NOW) for tenant in tenants},
        "provider": create_token(path, "provider", "", NOW),
        "programme": create_token(path, "programme", "", NOW),
    }
    settings = PortalSettings(
        snapshots=Snapshots(home.snapshots),
        # Tests send many requests in a second.
        limits=RequestLimits(count().__next__, wait_seconds=0),
        documents=home.documents,
        authority=authority or TokenFile(path),
        clock=StoppedClock(NOW),
        has_login=authority is None,
        is_tls=False,
    )
    return Portal(home, settings, Client(make_site(settings, HOSTS)), tokens)
