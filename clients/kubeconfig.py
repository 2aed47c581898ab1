"""The address and the credentials of a Kubernetes API server: in a pod, or from a kubeconfig.

Put here: reading the ServiceAccount of a pod and the files that `kubectl` and `oc login` write.
Not here: requests (`clients.kubernetes`).
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from clients.credentials import CredentialUnreadable, ServerAccess

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
OWN_TOKEN = Path("/var/run/secrets/gpu-ledger")
"""Where the manifests mount a short-lived token, with the authority of the API server."""
KUBECONFIG_BYTES_LIMIT = 4 << 20  # a file of a thousand contexts has 2 MB


def find_cluster_access(
    kubeconfig: Path | None = None, environment: Mapping[str, str] | None = None
) -> ServerAccess:
    """The given kubeconfig, else the pod's ServiceAccount, else $KUBECONFIG or ~/.kube/config."""
    environment = os.environ if environment is None else environment
    if kubeconfig is None:
        host = environment.get("KUBERNETES_SERVICE_HOST", "")
        for folder in (SERVICE_ACCOUNT, OWN_TOKEN):
            if host and (folder / "token").exists():
                name = f"[{host}]" if ":" in host else host
                return ServerAccess(
                    f"https://{name}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}",
                    ca_file=folder / "ca.crt",
                    token_file=folder / "token",
                )
        kubeconfig = default_kubeconfig(environment)
    return read_kubeconfig(kubeconfig)


def default_kubeconfig(environment: Mapping[str, str]) -> Path:
    """The first existing file of $KUBECONFIG, else ~/.kube/config."""
    named = [Path(p) for p in environment.get("KUBECONFIG", "").split(os.pathsep) if p]
    return next((path for path in named if path.exists()), Path.home() / ".kube" / "config")


def read_kubeconfig(path: Path) -> ServerAccess:
    """The current context of a kubeconfig."""
    config = _load(path)
    context = _entry(path, config, "contexts", str(config.get("current-context") or ""), "context")
    cluster = _entry(path, config, "clusters", str(context.get("cluster") or ""), "cluster")
    user = _entry(path, config, "users", str(context.get("user") or ""), "user")
    if "exec" in user or "auth-provider" in user:
        raise CredentialUnreadable(
            path,
            "the current user is authenticated by a plug-in, which gpu-ledger does not run; "
            "log in with a token (`oc login`) or use a ServiceAccount's token",
        )
    url = cluster.get("server")
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        raise CredentialUnreadable(path, "the current cluster has no server URL")
    if cluster.get("insecure-skip-tls-verify"):
        raise CredentialUnreadable(
            path,
            "insecure-skip-tls-verify is set for the current cluster; gpu-ledger always verifies "
            "certificates. Set certificate-authority instead",
        )
    token_file = user.get("tokenFile")
    return ServerAccess(
        url.rstrip("/"),
        ca_pem=_pem(path, cluster, "certificate-authority"),
        token="" if token_file else str(user.get("token") or ""),
        token_file=path.parent / str(token_file) if token_file else None,
        certificate_pem=_pem(path, user, "client-certificate"),
        key_pem=_pem(path, user, "client-key"),
    )


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes()[: KUBECONFIG_BYTES_LIMIT + 1]
        if len(text) > KUBECONFIG_BYTES_LIMIT:
            raise CredentialUnreadable(path, f"larger than {KUBECONFIG_BYTES_LIMIT} bytes")
        config = yaml.safe_load(text)
    except OSError as cause:
        raise CredentialUnreadable(path, f"{type(cause).__name__}: {cause.strerror}") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise CredentialUnreadable(path, "the file is not a YAML document") from None
    if not isinstance(config, dict):
        raise CredentialUnreadable(path, "the file is not a kubeconfig")
    return config


def _entry(
    path: Path, config: Mapping[str, Any], section: str, name: str, key: str
) -> Mapping[str, Any]:
    entries = config.get(section)
    for entry in entries if isinstance(entries, Sequence) else ():
        if isinstance(entry, Mapping) and entry.get("name") == name:
            value = entry.get(key)
            return value if isinstance(value, Mapping) else {}
    raise CredentialUnreadable(path, f"the kubeconfig has no {key} named {name[:100]!r}")


def _pem(path: Path, entry: Mapping[str, Any], key: str) -> str:
    data, file = entry.get(f"{key}-data"), entry.get(key)
    try:
        if data:
            return base64.b64decode(str(data), validate=True).decode("ascii")
        if file:
            return (path.parent / str(file)).read_text(encoding="ascii")
    except (binascii.Error, UnicodeDecodeError):
        raise CredentialUnreadable(path, f"{key} is not a PEM certificate or key") from None
    except OSError as cause:
        where = path.parent / str(file)
        raise CredentialUnreadable(where, f"{type(cause).__name__}: {cause.strerror}") from None
    return ""
