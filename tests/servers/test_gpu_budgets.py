"""GpuBudgets on a real kube-apiserver: definition, rights, and the way to `gpu-ledger budgets`.

Put here: what the API server accepts, who may write, and a cluster in which the definition is
applied while its collector runs.
Not here: the rules of counting (`tests/scenarios/test_gpu_budgets.py`, `dim_budgets_cases.yml`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner

from domain.billing_period import BillingPeriod
from domain.budgets import DEFAULT_ACTUAL_STEPS, DEFAULT_FORECAST_STEPS
from domain.interval import HOUR, Interval, format_instant, hour_of
from ingestion.evidence.landing import Landing
from ingestion.kubernetes.journal_decoder import write_lifecycle
from ingestion.kubernetes.pull import pull_hours
from orchestration.cli.main import cli
from tests.decisions_by_hand import HEADERS, SIGNED, decided
from tests.how_to import of
from tests.servers.collecting import CollectorProcess, PushedClock
from tests.servers.control_plane import ControlPlane, control_plane, controller_manager
from tests.servers.process import wait_for
from tests.servers.test_collector_follows_real_cluster import may_read
from warehouse.build import build_period
from warehouse.home import Home

pytestmark = pytest.mark.servers

MANIFESTS = Path(__file__).parents[2] / "deploy" / "budgets"
PATHS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
}
BUDGETS = "/apis/gpu-ledger.io/v1/namespaces/vision/gpubudgets"
VALID = {"amount": "12000.50", "currency": "USD"}
AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@dataclass
class Cluster:
    """An API server, first without the definition, and a collector that runs all the time."""

    plane: ControlPlane
    admin: httpx.Client
    collector: CollectorProcess

    def define(self) -> None:
        for file in ("definition.yaml", "rbac.yaml"):
            for document in yaml.safe_load_all((MANIFESTS / file).read_text(encoding="utf-8")):
                made = self.admin.post(PATHS[document["kind"]], json=document)
                assert made.is_success, made.text
        wait_for(lambda: self.admin.get(BUDGETS).is_success, "the definition is not served")

    def bind(self, role: str) -> None:
        """Bind a ClusterRole in `vision` to the user's group, instead of any other."""
        path = "/apis/rbac.authorization.k8s.io/v1/namespaces/vision/rolebindings"
        self.admin.delete(f"{path}/team")
        group = "rbac.authorization.k8s.io"
        document = {
            "metadata": {"name": "team"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "Group", "apiGroup": group, "name": "team-vision"}],
        }
        made = self.admin.post(path, json=document)
        assert made.is_success, made.text


def budget(name: str, spec: object) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "vision"}
    return {
        "apiVersion": "gpu-ledger.io/v1",
        "kind": "GpuBudget",
        "metadata": metadata,
        "spec": spec,
    }


def tried(client: httpx.Client, spec: object) -> httpx.Response:
    """As `kubectl apply --dry-run=server` sends it: unknown fields are errors."""
    strictly = {"dryRun": "All", "fieldValidation": "Strict"}
    return client.post(BUDGETS, json=budget("tried", spec), params=strictly)


def is_closed(collector: CollectorProcess, hour: datetime) -> bool:
    """Push the clock on, past the hour and the time for which silent watches are waited for."""
    collector.clock.push(600)
    closed = {line["hour"] for line in collector.lines() if line["line"] == "hour_closed"}
    return format_instant(hour) in closed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("budgets")
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane(folder / "plane"))
        stack.enter_context(controller_manager(plane, folder / "controllers"))
        admin = stack.enter_context(plane.client())
        may_read(admin)
        for name in ("vision", "physics"):
            admin.post("/api/v1/namespaces", json={"metadata": {"name": name}})
        system = admin.get("/api/v1/namespaces/kube-system").json()["metadata"]["uid"]
        token, ca = plane.token_file("collector"), plane.ca_file
        clock = PushedClock(folder / "ahead")
        spool = str(folder / "spool")
        collector = CollectorProcess(folder, plane.url, token, ca, system, spool, clock)
        stack.callback(collector.kill)
        collector.start()
        collector.wait_for("listed", resource="pods", complete=True)
        collector.wait_for("listed", resource="gpubudgets", complete=False)
        made = Cluster(plane, admin, collector)
        made.define()
        yield made


@pytest.mark.parametrize(
    "spec",
    [
        VALID,
        {"amount": 12000, "currency": "EUR", "billingPeriod": "2026-10"},
        VALID | {"workload": "Deployment/chat", "actualSteps": [], "forecastSteps": [50, 1000]},
        VALID | {"label": "app.kubernetes.io/part-of=phoenix"},
    ],
)
def test_the_server_accepts_a_budget(cluster: Cluster, spec: dict[str, Any]) -> None:
    made = tried(cluster.admin, spec)
    assert made.status_code == 201, made.text
    found = made.json()["spec"]
    assert found["actualSteps"] == spec.get("actualSteps", list(DEFAULT_ACTUAL_STEPS))
    assert found["forecastSteps"] == spec.get("forecastSteps", list(DEFAULT_FORECAST_STEPS))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (VALID | {"amount": "-1"}, "spec.amount"),
        (VALID | {"amount": -1}, "spec.amount"),
        (VALID | {"amount": 1.5}, "spec.amount"),
        (VALID | {"amount": "1e3"}, "spec.amount"),
        (VALID | {"currency": "usd"}, "spec.currency"),
        ({"amount": "1"}, "spec.currency"),
        ({"currency": "USD"}, "spec.amount"),
        (VALID | {"billingPeriod": "2026-13"}, "spec.billingPeriod"),
        (VALID | {"workload": "chat"}, "spec.workload"),
        (VALID | {"label": "project"}, "spec.label"),
        (VALID | {"workload": "Job/a", "label": "a=b"}, "limit either a workload or a label"),
        (VALID | {"actualSteps": [90, 50]}, "write the lower percentages first"),
        (VALID | {"actualSteps": [50, 50]}, "Duplicate value"),
        (VALID | {"actualSteps": [0]}, "spec.actualSteps"),
        (VALID | {"forecastSteps": [1001]}, "spec.forecastSteps"),
        (VALID | {"actualSteps": list(range(1, 12))}, "spec.actualSteps"),
        (VALID | {"tenant": "physics"}, 'unknown field "spec.tenant"'),
        (None, "spec"),
    ],
)
def test_the_server_refuses_what_is_no_budget(
    cluster: Cluster, spec: dict[str, Any] | None, message: str
) -> None:
    made = tried(cluster.admin, spec)
    assert made.status_code in (400, 422), made.text
    assert message in made.json()["message"]


def test_the_server_accepts_the_budget_of_the_guide(cluster: Cluster) -> None:
    guide = yaml.safe_load(of("how-to/budgets.md", "yaml")[0])
    strictly = {"dryRun": "All", "fieldValidation": "Strict"}
    made = cluster.admin.post(BUDGETS, json=guide, params=strictly)
    assert made.status_code == 201, made.text


def test_people_who_edit_write_and_people_who_view_read(cluster: Cluster) -> None:
    """`edit` and `view` get the rules by aggregation, a moment after they were made."""
    with cluster.plane.client("tenant-user") as user:
        assert user.get(BUDGETS).status_code == 403
        cluster.bind("view")
        wait_for(lambda: user.get(BUDGETS).is_success, "view may not read budgets")
        assert tried(user, VALID).status_code == 403
        for role in ("edit", "admin"):
            cluster.bind(role)
            wait_for(lambda: tried(user, VALID).status_code == 201, "may not write budgets")
        assert user.get(BUDGETS.replace("vision", "physics")).status_code == 403


def test_the_collector_reads_all_budgets_and_writes_none(cluster: Cluster) -> None:
    with cluster.plane.client("collector") as collector:
        assert collector.get("/apis/gpu-ledger.io/v1/gpubudgets").is_success
        assert tried(collector, VALID).status_code == 403
        assert collector.delete(BUDGETS).status_code == 403


def test_a_definition_that_comes_later_is_collected_and_its_budgets_are_listed(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Created, changed and deleted objects, from the API server to the command."""
    collector, clock = cluster.collector, cluster.collector.clock
    month = BillingPeriod.containing(clock.now()).name
    specs = {
        "team": {"amount": "100", "currency": "USD"},
        "chat": VALID | {"workload": "Deployment/chat", "billingPeriod": month},
        "short": VALID,
    }
    for name, spec in specs.items():
        assert cluster.admin.post(BUDGETS, json=budget(name, spec)).is_success
    patch = {"spec": {"amount": 250, "actualSteps": [80]}}
    of_patch = {"content-type": "application/merge-patch+json"}
    changed = cluster.admin.patch(f"{BUDGETS}/team", content=json.dumps(patch), headers=of_patch)
    assert changed.is_success, changed.text
    assert cluster.admin.delete(f"{BUDGETS}/short").is_success
    collector.wait_for("object", resource="gpubudgets", via="deleted")
    table = cluster.admin.get(BUDGETS, headers={"accept": AS_TABLE}).json()
    assert [column["name"] for column in table["columnDefinitions"]] == [
        *("Name", "Amount", "Currency", "Month", "Workload", "Label", "Age")
    ]
    assert [row["cells"][:4] for row in table["rows"]] == [
        ["chat", "12000.50", "USD", month],
        ["team", "250", "USD", None],
    ]
    # Not served: written once, however often it was tried. Then a complete list, and no gap.
    lines = [line for line in collector.lines() if line.get("resource") == "gpubudgets"]
    assert [line["complete"] for line in lines if line.get("why") == "start"] == [False, True]
    assert not [line for line in lines if line["line"] in ("gap", "contradiction")]

    hour = hour_of(clock.now())
    wait_for(lambda: is_closed(collector, hour), "the hour is not closed")
    collector.stop()
    home = Home.create(tmp_path / "home")
    cluster_id = collector.cluster_id
    started = format_instant(hour)
    row = f"{cluster_id},real,{started},,lifecycle,30,30,{SIGNED},"
    (home.decisions / "clusters.csv").write_text(f"{HEADERS['clusters']}\n{row}\n")
    landing = Landing(home.landing_store())
    attempt = pull_hours(cluster_id, Interval(hour, hour + HOUR), collector.spool, landing, clock)
    write_lifecycle(landing, home.runs, attempt)
    tables = {"clusters.csv": (home.decisions / "clusters.csv").read_text()}
    build_period(home, BillingPeriod(month), decided(tables), closed_periods=frozenset())
    ran = CliRunner().invoke(cli, ["budgets", month, "--json", "--home", str(home.path)])
    assert ran.exception is None, ran.output
    steps = json.loads(ran.stdout)["steps"]
    assert {(one["budget"], one["source"], one["kind"], one["step_pct"]) for one in steps} == {
        ("team", "cluster", "actual", 80),
        ("team", "cluster", "forecast", 100),
        *(("chat", "cluster", "actual", step) for step in DEFAULT_ACTUAL_STEPS),
        ("chat", "cluster", "forecast", 100),
    }
    amounts = {one["budget"]: (one["tenant"], one["amount"]) for one in steps}
    assert amounts == {"team": ("vision", "250"), "chat": ("vision", "12000.5")}
