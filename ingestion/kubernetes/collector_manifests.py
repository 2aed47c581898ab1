"""The manifests of a collector, as YAML to read, change and apply.

Put here: the objects and their text; a pure function of a few names.
Not here: applying them (`kubectl apply -f`), or writing files (`gpu-ledger init`).

They comply with the restricted pod security standard. The collector may only read the resources
that it records: no secrets, no exec, no wildcard, no write.
"""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ingestion.kubernetes.watched_resources import OWNER_PLURALS, PATHS
from ingestion.yaml_text import yaml_text

Document = dict[str, Any]

NAME = "gpu-ledger-collector"
IMAGE = "registry.example.com/gpu-ledger/collector"
"""Without --image: to be replaced by the address of the image of `deploy/collector`."""

HEALTH_PORT = 8080
GROUP = 10001
"""Of the image's user, and of the volume that it writes."""

# A journal of a large cluster is about 30 MB an hour at most, and is pulled every hour; this holds
# weeks of it while everything else is down.
SPOOL_SIZE = "20Gi"

# Measured peak (`python -m bench collector`): 57 MiB, and 11 for each 1,000 pods that request GPUs,
# so 167 MiB for 10,000; and 50 more while 50,000 lines wait for a store that refuses. The limit is
# for 30,000 pods: a collector that is killed for its memory would miss hours.
MEMORY_REQUEST = "256Mi"
MEMORY_LIMIT = "512Mi"

# With a bucket: the secret with its keys, where the cluster gives the pod no identity, and the
# ConfigMap with AWS_REGION. A changed key is used without a restart, because it is a file.
BUCKET = "gpu-ledger-journal"
KEYS_FOLDER = "/var/run/secrets/bucket"

OWN_VOLUME = {"fsGroup": GROUP, "fsGroupChangePolicy": "OnRootMismatch"}


@dataclass(frozen=True, slots=True)
class CollectorPlace:
    """Where a collector runs, and for which cluster."""

    cluster_id: str
    namespace: str = "gpu-ledger"
    image: str = ""  # "" is a name to be replaced
    api_port: int = 6443
    journal: str = ""  # a bucket's URL; "" keeps the journal on a volume of the cluster
    endpoint: str = ""  # of a store that is not Amazon's
    is_openshift: bool = False  # it chooses users and groups itself, and refuses ours
    pod_labels: tuple[str, ...] = ()  # the allow-list of the home; () keeps the usual ones


def image_to_replace() -> str:
    return f"{IMAGE}:{importlib.metadata.version('gpu-ledger')}"


def collector_manifests(place: CollectorPlace) -> str:
    """The whole file, commented."""
    parts = [
        "# The collector of one cluster: it watches GPU pods and writes a journal of their lives.\n"
        "# Apply it in that cluster: kubectl apply -f THIS_FILE\n"
    ]
    if place.journal:
        parts.append(
            "# The bucket's keys, where the cluster gives the pod no identity, in a file of AWS'\n"
            "# format ([default], aws_access_key_id = …, aws_secret_access_key = …); its region:\n"
            f"#   kubectl create secret generic {BUCKET} --namespace {place.namespace} \\\n"
            "#     --from-file=credentials\n"
            f"#   kubectl create configmap {BUCKET} --namespace {place.namespace} \\\n"
            "#     --from-literal=AWS_REGION=…\n"
        )
    for comment, document in _documents(place):
        text = yaml_text(document)
        parts.append(f"---\n# {comment}\n{text}" if comment else f"---\n{text}")
    return "".join(parts)


def _documents(place: CollectorPlace) -> list[tuple[str, Document]]:
    return [
        ("Its namespace holds nothing else.", _namespace(place)),
        ("Who it is.", _service_account(place)),
        ("Rights of the collector: read access only.", _cluster_role()),
        ("", _binding(place)),
        ("Where the API server is, and where the journal goes.", _config(place)),
        *([] if place.journal else [("Its journal survives it.", _volume(place))]),
        (
            "Nothing may talk to it but probes; it may talk to the API server, to DNS"
            + (" and to its bucket." if place.journal else "."),
            _network_policies(place),
        ),
        (
            "One at a time. Two would disturb nothing, and write everything twice.\n"
            "# Its memory is for 10,000 pods that request GPUs, its limit for 30,000;\n"
            "# each 1,000 more take 11 MiB.",
            _deployment(place),
        ),
    ]


def _object(api_version: str, kind: str, name: str, namespace: str = "") -> Document:
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "gpu-ledger"}
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": meta | {"labels": labels}}


def _namespace(place: CollectorPlace) -> Document:
    document = _object("v1", "Namespace", place.namespace)
    document["metadata"]["labels"] |= {
        f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
    }
    return document


def _service_account(place: CollectorPlace) -> Document:
    account = _object("v1", "ServiceAccount", NAME, place.namespace)
    # The token is mounted by the Deployment, short-lived, and nowhere else.
    return account | {"automountServiceAccountToken": False}


def _cluster_role() -> Document:
    """One rule per API group, with the verbs that the collector uses and no other."""
    watched: dict[str, list[str]] = {}
    for path in PATHS.values():
        parts = path.strip("/").split("/")
        group = parts[1] if parts[0] == "apis" else ""
        watched.setdefault(group, []).append(parts[-1])
    rules: list[Document] = [
        {"apiGroups": [group], "resources": names, "verbs": ["get", "list", "watch"]}
        for group, names in watched.items()
    ]
    owners: dict[str, list[str]] = {}
    for (group, _), plural in OWNER_PLURALS.items():
        owners.setdefault(group, []).append(plural)
    rules += [
        {"apiGroups": [group], "resources": plurals, "verbs": ["get"]}
        for group, plurals in owners.items()
    ]
    return _object("rbac.authorization.k8s.io/v1", "ClusterRole", NAME) | {"rules": rules}


def _binding(place: CollectorPlace) -> Document:
    rbac = "rbac.authorization.k8s.io"
    return _object(f"{rbac}/v1", "ClusterRoleBinding", NAME) | {
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": place.namespace}],
    }


def _config(place: CollectorPlace) -> Document:
    tokens = "/var/run/secrets/gpu-ledger"
    text = (
        f"[clusters.{place.cluster_id}.kubernetes]\n"
        'url = "https://kubernetes.default.svc"\n'
        f'token_file = "{tokens}/token"\n'
        f'ca_file = "{tokens}/ca.crt"\n'
    )
    if place.journal:
        text += f'journal = "{place.journal}"\n'
    if place.pod_labels:
        text += f"\n[pull]\npod_labels = {json.dumps(place.pod_labels)}\n"
    config = _object("v1", "ConfigMap", NAME, place.namespace)
    return config | {"data": {"config.toml": text}}


def _volume(place: CollectorPlace) -> Document:
    claim = _object("v1", "PersistentVolumeClaim", f"{NAME}-journal", place.namespace)
    resources = {"requests": {"storage": SPOOL_SIZE}}
    return claim | {"spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}}


def _network_policies(place: CollectorPlace) -> Document:
    probes = [{"port": HEALTH_PORT, "protocol": "TCP"}]
    ports = {443, place.api_port, *_endpoint_ports(place)}
    api = [{"port": port, "protocol": "TCP"} for port in sorted(ports)]
    names = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    # OpenShift's DNS pods listen on 5353; policies see the pods' ports.
    names += [{"port": 5353, "protocol": protocol} for protocol in ("UDP", "TCP")]
    policy = _object("networking.k8s.io/v1", "NetworkPolicy", NAME, place.namespace)
    return policy | {
        "spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": NAME}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": probes}],
            "egress": [{"ports": api}, {"ports": names}],
        }
    }


def _endpoint_ports(place: CollectorPlace) -> set[int]:
    """The port of the journal's store, which policies see as it is at the store's pods."""
    parts = urlsplit(place.endpoint)
    if not place.journal or not parts.hostname:
        return set()
    return {parts.port or (80 if parts.scheme == "http" else 443)}


def _deployment(place: CollectorPlace) -> Document:
    selector = {"app.kubernetes.io/name": NAME}
    deployment = _object("apps/v1", "Deployment", NAME, place.namespace)
    labels = dict(deployment["metadata"]["labels"])
    return deployment | {
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": labels}, "spec": _pod(place)},
        }
    }


def _pod(place: CollectorPlace) -> Document:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    authority = {
        "configMap": {
            "name": "kube-root-ca.crt",
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }
    }
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # It writes its observations before it ends; a flush takes less than a second.
        "terminationGracePeriodSeconds": 60,
        "securityContext": {
            "runAsNonRoot": True,
            **({} if place.is_openshift else OWN_VOLUME),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(place)],
        "volumes": [
            {"name": "api-access", "projected": {"sources": [token, authority]}},
            {"name": "config", "configMap": {"name": NAME}},
            {"name": "journal"} | _journal(place),
            *([_keys()] if place.journal else []),
        ],
    }


def _journal(place: CollectorPlace) -> Document:
    if place.journal:
        return {"emptyDir": {"sizeLimit": "1Gi"}}
    return {"persistentVolumeClaim": {"claimName": f"{NAME}-journal"}}


def _keys() -> Document:
    return {"name": "bucket", "secret": {"secretName": BUCKET, "optional": True}}


def _bucket_environment(place: CollectorPlace) -> Document:
    """Region, endpoint and the place of the keys of the journal's bucket."""
    if not place.journal:
        return {}
    values = {"AWS_SHARED_CREDENTIALS_FILE": f"{KEYS_FOLDER}/credentials"}
    values |= {"AWS_ENDPOINT_URL": place.endpoint} if place.endpoint else {}
    return {
        "envFrom": [{"configMapRef": {"name": BUCKET, "optional": True}}],
        "env": [{"name": name, "value": value} for name, value in values.items()],
    }


def _container(place: CollectorPlace) -> Document:
    def probe(path: str, failures: int) -> Document:
        ask = {"path": path, "port": "health"}
        return {"httpGet": ask, "periodSeconds": 20, "failureThreshold": failures}

    return {
        "name": "collector",
        "image": place.image or image_to_replace(),
        "args": [
            *("collect", place.cluster_id),
            *("--home", "/home/gpu-ledger"),
            *("--health-port", str(HEALTH_PORT)),
        ],
        **_bucket_environment(place),
        "ports": [{"name": "health", "containerPort": HEALTH_PORT}],
        "livenessProbe": probe("/healthz", 6),
        "readinessProbe": probe("/readyz", 3),
        "resources": {
            "requests": {"cpu": "50m", "memory": MEMORY_REQUEST},
            "limits": {"memory": MEMORY_LIMIT},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {
                "name": "api-access",
                "mountPath": "/var/run/secrets/gpu-ledger",
                "readOnly": True,
            },
            {
                "name": "config",
                "mountPath": "/home/gpu-ledger/config.toml",
                "subPath": "config.toml",
                "readOnly": True,
            },
            {"name": "journal", "mountPath": "/home/gpu-ledger/journal"},
            *(
                [{"name": "bucket", "mountPath": KEYS_FOLDER, "readOnly": True}]
                if place.journal
                else []
            ),
        ],
    }
