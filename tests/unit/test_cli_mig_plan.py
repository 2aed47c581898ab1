"""`gpu-ledger mig plan` on the command line, with an API server that serves three documents."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from click.testing import CliRunner, Result

from orchestration.cli.main import cli
from tests.json_output import differences
from tests.marts_by_hand import Pod, World, at
from tests.marts_in_memory import START, facts
from warehouse.connection import connected
from warehouse.reports.withdrawals import withdrawals

PARTED = """\
version: v1
mig-configs:
  all-1g.5gb:
    - {devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 7}}
  halves:
    - {devices: [0], mig-enabled: true, mig-devices: {"1g.5gb": 7}}
    - {devices: [1], mig-enabled: true, mig-devices: {"3g.20gb": 2}}
  other-card:
    - {devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 7}}
"""
NODE = {
    "metadata": {
        "name": "gpu-1",
        "labels": {
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
            "nvidia.com/gpu.count": "2",
            "nvidia.com/mig.strategy": "mixed",
            "nvidia.com/mig.config": "all-1g.5gb",
            "nvidia.com/mig.config.state": "success",
        },
    }
}


def pod(namespace: str, name: str, resources: dict[str, str], owner: str = "") -> dict[str, Any]:
    kind, _, owner = owner.rpartition("/")
    owners = [{"kind": kind or "ReplicaSet", "name": owner, "controller": True}] if owner else []
    return {
        "metadata": {"namespace": namespace, "name": name, "ownerReferences": owners},
        "spec": {"containers": [{"name": "main", "resources": {"limits": resources}}]},
        "status": {"phase": "Running"},
    }


PODS = [
    pod("team-a", "train", {"nvidia.com/mig-1g.5gb": "1"}),
    pod("team-b", "serve", {"nvidia.com/mig-1g.5gb": "1"}, owner="serve-7d"),
    pod("kube-system", "proxy", {"cpu": "1"}, owner="DaemonSet/proxy"),
    pod("team-c", "web", {"cpu": "1"}, owner="web-5f"),
    pod("kube-system", "etcd-gpu-1", {"cpu": "1"}, owner="Node/gpu-1"),
]
PAGE = "".join(
    f'DCGM_FI_DEV_FB_USED{{gpu="{card}",GPU_I_PROFILE="1g.5gb",GPU_I_ID="{7 + number}",'
    f'namespace="{namespace}",pod="{name}"}} 1\n'
    for card in (0, 1)
    for number in range(7)
    for namespace, name in [
        ("team-a", "train") if (card, number) == (0, 2) else
        ("team-b", "serve") if (card, number) == (1, 0) else ("", "")
    ]
)  # fmt: skip


@contextmanager
def api_server(documents: dict[str, Any], folder: Path) -> Iterator[Path]:
    """Serve the documents to GET requests; the kubeconfig of the server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = documents.get(urlsplit(self.path).path)
            body = json.dumps(found or {"reason": "NotFound"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    config = {
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    try:
        yield path
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    documents = {
        "/api/v1/nodes/gpu-1": NODE,
        "/api/v1/pods": {"items": PODS},
        "/api/v1/namespaces/kube-system": {"metadata": {"uid": "cluster-1"}},
    }
    (tmp_path / "parted.yaml").write_text(PARTED)
    (tmp_path / "page.prom").write_text(PAGE)
    with api_server(documents, tmp_path) as path:
        yield path


def run(kubeconfig: Path, *arguments: str) -> Result:
    given = [part.replace("@", f"{kubeconfig.parent}/") for part in arguments]
    command = ["mig", "plan", "--node", "gpu-1", "--kubeconfig", str(kubeconfig), *given]
    return CliRunner().invoke(cli, command)


def planned(kubeconfig: Path, *arguments: str) -> dict[str, Any]:
    result = run(kubeconfig, *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    assert differences("mig plan", result.stdout) == []
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_with_a_portal_page_the_plan_names_the_pods_to_remove(kubeconfig: Path) -> None:
    """Only card 1 changes to `halves`, and the page shows `serve` on it."""
    plan = planned(
        kubeconfig, "--config", "@parted.yaml", "--profile", "halves", "--metrics", "@page.prom"
    )
    assert [row["changes"] for row in plan["cards"]] == [False, True]
    assert plan["surviving_instances"] == {"1g.5gb": 7}
    assert [(row["tenant"], row["pod"]) for row in plan["evicted_pods"]] == [("team-b", "serve")]
    assert not plan["needs_drain"]
    assert plan["config_map_entry"] == ""
    # Seven 1g leave one memory slot of eight; two 3g leave one compute slot of seven.
    assert plan["unsold_before"] == {"compute": "0/1", "memory": "1/4"}
    assert plan["unsold_after"] == {"compute": "1/7", "memory": "1/8"}
    assert plan["commands"][0] == "kubectl cordon gpu-1"
    assert plan["commands"][-1] == "kubectl uncordon gpu-1"
    assert "nvidia.com/mig.config.state- nvidia.com/mig.config=halves" in plan["commands"][-3]


def test_without_a_portal_page_all_possibly_affected_pods_are_named(kubeconfig: Path) -> None:
    plan = planned(kubeconfig, "--config", "@parted.yaml", "--profile", "halves")
    assert [row["pod"] for row in plan["evicted_pods"]] == ["train", "serve"]


CLAIM = {
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {"driver": "gpu.nvidia.com", "pool": "gpu-1", "device": "gpu-0-mig-1g5gb-0"},
                    {"driver": "nic.example.com", "pool": "gpu-1", "device": "eth1"},
                ]
            }
        }
    }
}


def claiming(name: str) -> dict[str, Any]:
    found = pod("team-c", name, {})
    found["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    found["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "c"}]
    return found


def test_a_pod_with_a_claim_may_be_on_every_card(tmp_path: Path) -> None:
    """Without a label, the product is that of the driver's ResourceSlice."""
    labels = dict(NODE["metadata"]["labels"])
    del labels["nvidia.com/gpu.product"]
    attributes = {"productName": {"string": "NVIDIA A100-SXM4-40GB"}}
    devices = [{"name": "gpu-0", "attributes": attributes}]
    slices = [{"spec": {"driver": "gpu.nvidia.com", "nodeName": "gpu-1", "devices": devices}}]
    documents = {
        "/api/v1/nodes/gpu-1": {"metadata": {"name": "gpu-1", "labels": labels}},
        "/api/v1/pods": {"items": [*PODS, claiming("claimer")]},
        "/api/v1/namespaces/kube-system": {"metadata": {"uid": "cluster-1"}},
        "/apis/resource.k8s.io/v1/namespaces/team-c/resourceclaims/c": CLAIM,
        "/apis/resource.k8s.io/v1/resourceslices": {"items": slices},
    }
    (tmp_path / "parted.yaml").write_text(PARTED)
    (tmp_path / "page.prom").write_text(PAGE)
    halves = ("--config", "@parted.yaml", "--profile", "halves", "--metrics")
    with api_server(documents, tmp_path) as kubeconfig:
        plan = planned(kubeconfig, *halves, "@page.prom")
        assert plan["product"] == "NVIDIA-A100-SXM4-40GB"
        assert [row["pod"] for row in plan["evicted_pods"]] == ["serve", "claimer"]
        assert plan["evicted_pods"][1]["devices"] == {"gpu.nvidia.com/gpu-0-mig-1g5gb-0": 1}
        # The exporter shows the claim's instance on card 0, which does not change.
        shown = PAGE.replace('namespace="",pod=""', 'namespace="team-c",pod="claimer"', 1)
        (tmp_path / "shown.prom").write_text(shown)
        plan = planned(kubeconfig, *halves, "@shown.prom")
        assert [row["pod"] for row in plan["evicted_pods"]] == ["serve"]


def test_a_drain_names_all_pods_that_it_evicts(kubeconfig: Path) -> None:
    """Four instances 3g.20gb need both cards. A drain leaves DaemonSets and static pods."""
    arguments = ("--want", "3g.20gb=4", "--metrics", "@page.prom")
    plan = planned(kubeconfig, *arguments)
    assert plan["needs_drain"]
    assert [row["pod"] for row in plan["evicted_pods"]] == ["train", "serve", "web"]
    assert plan["evicted_pods"][2]["devices"] == {}
    drain = "kubectl drain gpu-1 --ignore-daemonsets --delete-emptydir-data --timeout=600s"
    assert plan["commands"][2] == drain
    assert not [line for line in plan["commands"] if "eviction" in line]
    assert "get daemonsets.apps" in plan["rights"]
    assert "the node has to be drained" in run(kubeconfig, *arguments).stdout


def test_a_plan_warns_of_a_pod_that_its_controller_creates_again(tmp_path: Path) -> None:
    watcher = pod("team-d", "watcher-x", {"nvidia.com/mig-1g.5gb": "1"}, owner="DaemonSet/watcher")
    documents = {
        "/api/v1/nodes/gpu-1": NODE,
        "/api/v1/pods": {"items": [watcher]},
        "/api/v1/namespaces/kube-system": {"metadata": {"uid": "cluster-1"}},
    }
    (tmp_path / "parted.yaml").write_text(PARTED)
    with api_server(documents, tmp_path) as kubeconfig:
        text = run(kubeconfig, "--config", "@parted.yaml", "--profile", "halves").stderr
    assert "team-d/watcher-x is created again at once by DaemonSet/watcher" in text


def test_the_duration_of_earlier_changes_is_in_the_plan(kubeconfig: Path, tmp_path: Path) -> None:
    """Two cards of 42 units, withdrawn for 300 s in one hour, and for 100 s in another."""
    pods = [Pod("team-a", "p", at(f"0{day} 10:00"), at(f"0{day} 10:30")) for day in (7, 9)]
    home = World(tmp_path / "home", pods=pods).write()
    with connected(home.warehouse_path) as connection:
        for day, seconds in ((7, 300), (9, 100)):
            connection.execute(
                "update marts.fct_node_share_hours set cluster_id = 'cluster-1',"
                " installed_share_seconds = 2 * 42 * 3600, withdrawn_share_seconds = 2 * 42 * ?"
                " where dimension = 'compute' and day(hour_started_at) = ?",
                [seconds, day],
            )
    arguments = ("--want", "3g.20gb=2", "--metrics", "@page.prom", "--home", str(home.path))
    assert planned(kubeconfig, *arguments)["withdrawn_seconds"] == {
        "changes": 2,
        "median_seconds": 300,
        "longest_seconds": 300,
        "median_card_seconds": 600,
    }
    text = run(kubeconfig, *arguments).stdout
    assert "by 2 recorded changes: median 300 s (600 card-seconds), longest 300 s" in text


def test_wanted_instances_choose_a_configuration_of_the_file(kubeconfig: Path) -> None:
    plan = planned(
        kubeconfig, "--config", "@parted.yaml", "--want", "3g.20gb=2", "--metrics", "@page.prom"
    )
    assert plan["configuration"] == "halves"


def test_a_new_configuration_is_printed_if_none_fits(kubeconfig: Path) -> None:
    arguments = ("--config", "@parted.yaml", "--want", "2g.10gb=3", "--metrics", "@page.prom")
    plan = planned(kubeconfig, *arguments)
    entries = yaml.safe_load(plan["config_map_entry"])[plan["configuration"]]
    assert [(e["devices"], e["mig-devices"]) for e in entries] == [
        ([0], {"2g.10gb": 3}),
        ([1], {"1g.5gb": 7}),
    ]
    text = run(kubeconfig, *arguments)
    assert "team-a/train has no controller" in text.stderr
    assert "These evictions suffice" in text.stdout


@pytest.mark.parametrize(
    ("target", "more"),
    [
        (("--profile", "halves"), []),
        (("--want", "2g.10gb=3"), ["get, patch configmaps in nvidia-gpu-operator"]),
    ],
)
def test_a_plan_names_the_rights_of_its_commands(
    kubeconfig: Path, target: tuple[str, str], more: list[str]
) -> None:
    """`kubectl wait` gets, lists and watches; cordon, label and edit get and patch."""
    plan = planned(kubeconfig, "--config", "@parted.yaml", "--metrics", "@page.prom", *target)
    nodes_and_pods = ["get, list, patch, watch nodes", "get, list, watch pods"]
    assert plan["rights"] == [*nodes_and_pods, "create pods/eviction", *more]


def test_an_unchanged_layout_needs_no_commands(kubeconfig: Path) -> None:
    plan = planned(kubeconfig, "--want", "1g.5gb=14", "--metrics", "@page.prom")
    assert (plan["commands"], plan["evicted_pods"], plan["rights"]) == ([], [], [])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--want", "1g.5gb=1"), 2, "MIG-003"),
        (("--want", "1g.5gb=x"), 2, "'1g.5gb=x' is not PROFILE=N"),
        (("--want", "3g.20gb=5", "--metrics", "@page.prom"), 1, "MIG-002"),
        (("--profile", "all-1g.5gb"), 2, "--profile needs --config FILE"),
        ((), 2, "give --want or --profile"),
    ],
)
def test_a_plan_that_cannot_be_made_is_refused(
    kubeconfig: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = run(kubeconfig, *arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        assert (result.exception.code, result.exception.exit_code) == (message, code)
    else:
        assert result.exit_code == code
        assert message in result.output


def test_consecutive_hours_of_withdrawn_time_are_one_withdrawal() -> None:
    """Two cards: 600 s of both across an hour's end, 300 s of one, which counts half, and 900 s of
    both in half an hour, after which the node was removed.
    """

    def hour(node: str, number: int, withdrawn: int, installed: int = 3600) -> dict[str, Any]:
        return {
            "cluster_id": "c",
            "node_name": node,
            "gpu_class": "A100-40GB",
            "dimension": "compute",
            "hour_started_at": START + timedelta(hours=number),
            "share_denominator": 7,
            "installed_share_seconds": Decimal(2 * 7 * installed),
            "withdrawn_share_seconds": Decimal(7 * withdrawn),
        }

    rows = [hour("a", 0, 2 * 200), hour("a", 1, 2 * 400), hour("a", 5, 300), hour("b", 1, 0)]
    rows.append(hour("b", 3, 2 * 900, installed=1800))
    found = withdrawals(facts({"fct_node_share_hours": rows}), "c")
    assert (found.count, found.median_seconds, found.longest_seconds) == (3, 600, 900)
    assert withdrawals(facts({"fct_node_share_hours": rows}), "d").count == 0
