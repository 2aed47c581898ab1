"""A real Kubernetes control plane for tests: etcd, kube-apiserver and their clients.

Put here: starting, disconnecting and compacting them, and the tools of a cluster's admin.
Not here: the objects (`replay`), or expectations.

There is no kubelet and no controller: a test writes every status itself. Objects are stored as
JSON, so that a test can also write fields that a client cannot set: a UID, a time of creation.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.servers.process import free_port, required, running

TOKENS = {
    "admin": '"system:masters"',  # may do everything
    "collector": "",  # has the rights of a test's RBAC objects
    "nobody": "",  # may do nothing
    "tenant-user": '"team-vision"',  # sees the objects that bindings of its group allow
    "portal": "",  # may review tokens and rights
    "system:serviceaccount:gpu-ledger-idle-pruner:idle-pruner": "",  # by its manifests
    "system:serviceaccount:gpu-ledger-fake-gpus:fake-gpus": "",  # by its manifests
    "system:serviceaccount:gpu-ledger:ledger": "",  # by its manifests
}
# No controller creates service accounts here. Statuses that a test writes must not be changed.
WITHOUT_PLUGINS = "ServiceAccount,ResourceQuota,TaintNodesByCondition,NodeRestriction,Priority"
REQUEST_SECONDS = 60.0

Document = dict[str, Any]


def token_of(user: str) -> str:
    return f"{user}-token"


@dataclass
class ControlPlane:
    """A running control plane; its API server can be stopped and started again."""

    folder: Path
    etcd_port: int
    api_port: int
    disabled_plugins: str = WITHOUT_PLUGINS
    _api: ExitStack = field(default_factory=ExitStack)
    _etcd: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=REQUEST_SECONDS))

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def ca_file(self) -> Path:
        return self.folder / "certificates" / "apiserver.crt"

    def token_file(self, user: str) -> Path:
        path = self.folder / f"{user}.token"
        path.write_text(token_of(user) + "\n")
        return path

    def client(self, user: str = "admin") -> httpx.Client:
        return httpx.Client(
            base_url=self.url,
            verify=_trusting(self.ca_file),
            headers={"Authorization": f"Bearer {token_of(user)}"},
            timeout=REQUEST_SECONDS,
            trust_env=False,
        )

    # --- the servers --------------------------------------------------------------------------

    def start_api(self) -> None:
        """Start the API server, and wait until it is ready."""
        command = [
            required("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--storage-media-type=application/json",
            "--etcd-compaction-interval=0",
            f"--secure-port={self.api_port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'certificates'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'accounts.key'}",
            f"--service-account-signing-key-file={self.folder / 'accounts.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            f"--disable-admission-plugins={self.disabled_plugins}",
            "--allow-privileged=true",  # as in every distribution
        ]
        log = self.folder / "apiserver.log"
        self._api.enter_context(running(command, self._ready, log, gently=False))

    def stop_api(self) -> None:
        self._api.close()

    def _ready(self) -> bool:
        if not self.ca_file.exists():
            return False
        try:
            with self.client() as admin:
                ready = admin.get("/readyz", timeout=5).status_code == 200
                # The server creates its own namespaces a moment later.
                system = admin.get("/api/v1/namespaces/kube-system", timeout=5)
                return ready and system.status_code == 200
        except (httpx.TransportError, OSError):
            return False

    def kubeconfig(self, user: str = "admin") -> Path:
        """The kubeconfig with which the other programs of a control plane find the API server."""
        path = self.folder / f"{user}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token_of(user)}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        # Written once, because kube-state-metrics restarts when the file changes.
        if not path.exists():
            path.write_text(json.dumps(config))
        return path

    # --- behind the API server ----------------------------------------------------------------

    def etcd(self, call: str, body: Document) -> Document:
        answer = self._etcd.post(f"http://127.0.0.1:{self.etcd_port}/v3/{call}", json=body)
        assert answer.status_code == 200, answer.text
        document: Document = answer.json()
        return document

    def stored(self, key: str) -> Document:
        """The object under a key of etcd, as the API server wrote it."""
        found = self.etcd("kv/range", {"key": _base64(key)})
        assert "kvs" in found, f"etcd has no {key}"
        document: Document = json.loads(base64.b64decode(found["kvs"][0]["value"]))
        return document

    def store(self, key: str, document: Document) -> None:
        """Write an object directly to etcd; watchers of the API server receive the change."""
        self.etcd("kv/put", {"key": _base64(key), "value": _base64(json.dumps(document))})

    def remove_key(self, key: str) -> None:
        """Delete one object directly from etcd."""
        self.etcd("kv/deleterange", {"key": _base64(key)})

    def remove(self, prefix: str) -> None:
        """Delete every object with this key prefix."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        self.etcd("kv/deleterange", {"key": _base64(prefix), "range_end": _base64(end)})

    def revision(self) -> int:
        """The number of the latest write."""
        return int(self.etcd("kv/range", {"key": _base64("/registry")})["header"]["revision"])

    def compact(self) -> None:
        """Delete all revisions except the latest from etcd's history."""
        self.etcd("kv/compaction", {"revision": self.revision(), "physical": True})


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _trusting(ca_file: Path) -> Any:
    import ssl

    return ssl.create_default_context(cafile=str(ca_file))


@contextmanager
def control_plane(folder: Path, disabled_plugins: str = WITHOUT_PLUGINS) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver in a folder of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ["openssl", "genrsa", "-out", str(folder / "accounts.key"), "2048"]
    subprocess.run(key, check=True, capture_output=True)
    rows = [f"{token_of(user)},{user},{user}-uid,{group}" for user, group in TOKENS.items()]
    (folder / "tokens.csv").write_text("\n".join(rows) + "\n")
    plane = ControlPlane(folder, free_port(), free_port(), disabled_plugins)
    log = folder / "etcd.log"
    with running(_etcd_command(plane), lambda: _healthy(plane), log, gently=False):
        try:
            plane.start_api()
            yield plane
        finally:
            plane.stop_api()
            plane._etcd.close()


def _etcd_command(plane: ControlPlane) -> Sequence[str | Path]:
    here, peers = f"http://127.0.0.1:{plane.etcd_port}", f"http://127.0.0.1:{free_port()}"
    return [
        required("etcd"),
        f"--data-dir={plane.folder / 'etcd'}",
        f"--listen-client-urls={here}",
        f"--advertise-client-urls={here}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]


def _healthy(plane: ControlPlane) -> bool:
    return _answers(f"http://127.0.0.1:{plane.etcd_port}/health")


def _answers(url: str, **options: Any) -> bool:
    try:
        return httpx.get(url, timeout=5, trust_env=False, **options).status_code == 200
    except httpx.TransportError:
        return False


KWOK_STAGES = Path(__file__).parent / "kwok_stages.yaml"


@contextmanager
def kwok(plane: ControlPlane, folder: Path) -> Iterator[None]:
    """Kubelets for nodes without machines: bound pods run, pods of Jobs end, deleted pods go."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [
        required("kwok"),
        f"--kubeconfig={plane.kubeconfig()}",
        "--manage-all-nodes=true",
        f"--config={KWOK_STAGES}",
        f"--server-address=127.0.0.1:{port}",
    ]
    url = f"http://127.0.0.1:{port}/healthz"
    with running(command, lambda: _answers(url), folder / "kwok.log", gently=False):
        yield


CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "resourcequota-controller",
    "validatingadmissionpolicy-status-controller",
)


@contextmanager
def controller_manager(plane: ControlPlane, folder: Path) -> Iterator[None]:
    """The controllers that create pods of Deployments, and check the types of policies."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [
        required("kube-controller-manager"),
        f"--kubeconfig={plane.kubeconfig()}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--leader-elect=false",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder / 'certificates'}",
    ]
    url = f"https://127.0.0.1:{port}/healthz"
    log = folder / "controller-manager.log"
    # Its certificate is created at its start; the connection is on loopback and has no secret.
    with running(command, lambda: _answers(url, verify=False), log, gently=False):
        yield


@contextmanager
def kube_state_metrics(
    plane: ControlPlane, folder: Path, program: str = "kube-state-metrics"
) -> Iterator[str]:
    """A kube-state-metrics that shows every label, as on OpenShift; the URL of its page."""
    port, own = free_port(), free_port()
    allowed = "pods=[*],nodes=[*],namespaces=[*]"
    kinds = (
        "cronjobs,deployments,jobs,namespaces,nodes,pods,replicasets,resourcequotas,statefulsets"
    )
    command = [
        required(program),
        f"--kubeconfig={plane.kubeconfig()}",
        f"--metric-labels-allowlist={allowed}",
        f"--resources={kinds},statefulsets",
        *("--host=127.0.0.1", f"--port={port}", "--telemetry-host=127.0.0.1"),
        f"--telemetry-port={own}",
    ]
    url = f"http://127.0.0.1:{port}"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{program}.log"
    with running(command, lambda: _answers(f"{url}/healthz"), log, gently=False):
        yield f"{url}/metrics"


SCHEDULER_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {kubeconfig}}}
profiles: [{{schedulerName: {name}}}]
"""


@contextmanager
def scheduler(plane: ControlPlane, folder: Path, name: str = "for-nobody") -> Iterator[str]:
    """A kube-scheduler for the pods that name it; the URL of its resource metrics."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = folder / "scheduler.yaml"
    config.write_text(SCHEDULER_CONFIG.format(kubeconfig=plane.kubeconfig(), name=name))
    command = [
        required("kube-scheduler"),
        f"--config={config}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder / 'scheduler-certificates'}",
        # Without both files, every token is anonymous.
        f"--authentication-kubeconfig={plane.kubeconfig()}",
        f"--authorization-kubeconfig={plane.kubeconfig()}",
    ]
    url = f"https://127.0.0.1:{port}"
    log = folder / "scheduler.log"
    # Its certificate is created at its start; the connection is on loopback and has no secret.
    with running(command, lambda: _answers(f"{url}/healthz", verify=False), log, gently=False):
        yield f"{url}/metrics/resources"
