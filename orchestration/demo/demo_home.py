"""The demo's home: settings for the simulated fleet, and decisions that fit it.

Put here: config.toml and decision tables, written from a fleet.
Not here: the fleet itself (`fake_gpu`), or prices (`prices.csv` beside this file).
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Mapping
from datetime import date
from importlib.resources import files
from pathlib import Path

from domain.csv_text import csv_text
from domain.errors import WrongFolder
from domain.interval import format_instant
from domain.tenant import BelongsTo, Ownership
from fake_gpu.clock import epoch
from fake_gpu.fleet.model import Fleet, SimulatedCluster
from orchestration.home_lock import require_down
from warehouse.home import Home

MARK = "# The home of a demo: `gpu-ledger demo` deletes it and creates it again.\n"
CURRENCY = "USD"
DECIDED = {"reason": "the demo's", "decided_by": "Demo Operator"}
# Decided about tenants and a cluster of the scenario `demo`; another scenario has no such rows.
DEMO = "demo"
BUDGETS = {"chat": "15000", "physics": "6000", "students": "1000"}  # per month
OUTAGE_OF = "beta"
OUTAGE = {
    "started_at": "2026-10-18T01:00:00Z",
    "ended_at": "2026-10-18T03:00:00Z",
    "reason": "the storage of beta could not be reached",
    "decided_on": "2026-10-19",
}


def make_home(path: Path, fleet: Fleet, thanos_url: str, api_urls: Mapping[str, str]) -> Home:
    """Create a home for a fleet; the home of an earlier demo in that folder is deleted."""
    if path.exists() and any(path.iterdir()):
        config = path / "config.toml"
        if not config.is_file() or not config.read_text(encoding="utf-8").startswith(MARK):
            raise WrongFolder(
                where=str(path),
                seen="a folder that was not created by a demo",
                why="a demo deletes its folder before it begins",
                remedy="choose another folder: gpu-ledger demo --home FOLDER",
            )
        require_down(path / "dagster")
        shutil.rmtree(path)
    home = Home.create(path, _config(fleet, thanos_url, api_urls))
    for name, rows in decision_rows(fleet).items():
        text = csv_text(list(rows[0]), ([row[column] for column in rows[0]] for row in rows))
        (home.decisions / f"{name}.csv").write_text(text, encoding="utf-8")
    return home


def _config(fleet: Fleet, thanos_url: str, api_urls: Mapping[str, str]) -> str:
    lines = [MARK]
    if labels := sorted({label for pod in fleet.pods for label in pod.labels}):
        lines += ["[pull]", f"pod_labels = {json.dumps(labels)}", ""]
    lines += ["[thanos.fake]", f'url = "{thanos_url}"', ""]
    for cluster in fleet.clusters:
        lines += [
            f"[clusters.{cluster.cluster_id}]",
            'thanos = "fake"',
            f"[clusters.{cluster.cluster_id}.kubernetes]",
            f'url = "{api_urls[cluster.cluster_id]}"',
            "",
        ]
    return "\n".join(lines)


def decision_rows(fleet: Fleet) -> dict[str, list[dict[str, str]]]:
    """The decisions of the demo's provider: clusters, prices, parties, budgets, outages."""
    started_at = format_instant(epoch(fleet.started_at))
    decided = {**DECIDED, "decided_on": date(2026, 1, 2).isoformat()}
    dated = {"valid_from": started_at, "valid_until": ""}
    customers = tenants(fleet)
    rows = {
        "clusters": [_cluster(cluster, fleet) | decided for cluster in fleet.clusters],
        "rates": [
            {"cluster_id": "", "gpu_class": row["gpu_class"], "mig_profile": "whole"}
            | {"currency": CURRENCY, "rate_per_hour": row["rate_per_hour"]}
            | dated
            | decided
            | {"second_name": ""}
            for row in csv.DictReader(io.StringIO(_prices()))
        ],
        "parties": [
            party | dated | decided
            for party in (_issuer(), *(_customer(tenant) for tenant in customers))
        ],
        "budgets": [
            {"tenant": tenant, "billing_period": "", "currency": CURRENCY, "amount": amount}
            | decided
            for tenant, amount in BUDGETS.items()
            if fleet.name == DEMO and tenant in customers
        ],
        "outages": [
            {"cluster_id": cluster.cluster_id, "treatment": "credit", **decided, **OUTAGE}
            for cluster in fleet.clusters
            if fleet.name == DEMO and cluster.name == OUTAGE_OF
        ],
    }
    return {table: listed for table, listed in rows.items() if listed}


def tenants(fleet: Fleet) -> list[str]:
    """Namespaces of the fleet that hold pods and are tenants by the rule."""
    rule = Ownership(())
    names = {pod.namespace for cluster in fleet.clusters for pod in cluster.pods}
    at = epoch(fleet.started_at)
    return sorted(name for name in names if rule.belongs_to(name, at) is BelongsTo.TENANT)


def _cluster(cluster: SimulatedCluster, fleet: Fleet) -> dict[str, str]:
    jobs = {job.job: job.scrape_interval_seconds for job in cluster.monitoring.jobs}
    scraped = jobs["kube-state-metrics"]
    return {
        "cluster_id": cluster.cluster_id,
        "cluster_name": cluster.name,
        "valid_from": format_instant(epoch(fleet.started_at)),
        "valid_until": format_instant(epoch(fleet.ended_at)),
        "sources": "both",
        "sample_interval_seconds": str(cluster.monitoring.collect_interval_seconds or scraped),
        "scrape_interval_seconds": str(scraped),
    }


def _issuer() -> dict[str, str]:
    return {
        "role": "issuer",
        "tenant": "",
        "name": "Example GPU Cloud Ltd",
        "address": "1 Example Street, Dublin",
        "tax_id": "IE1234567X",
        "email": "billing@example.com",
    }


def _customer(tenant: str) -> dict[str, str]:
    return {
        "role": "customer",
        "tenant": tenant,
        "name": f"{tenant.replace('-', ' ').title()} Group",
        "address": "2 Example Street, Dublin",
        "tax_id": "",
        "email": f"{tenant}@example.com",
    }


def _prices() -> str:
    return (files("orchestration.demo") / "prices.csv").read_text(encoding="utf-8")
