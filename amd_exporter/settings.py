"""Settings of the exporter: flags, environment variables, defaults and allowed values.

Put here: reading and checking them.
Not here: using them.

A flag has precedence over its environment variable. An invalid value stops the start.
"""

from __future__ import annotations

import argparse
import ipaddress
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCES = ("auto", "amdsmi", "amd-smi", "rocm-smi")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
EXTRA_LABELS_LIMIT = 10
LABEL_VALUE_LIMIT = 128
OWN_LABELS = frozenset(
    {
        *("node", "gpu", "uuid", "pci_bus", "product", "partition", "partition_mode"),
        *("namespace", "pod", "container", "sensor", "clock", "kind"),
        *("instance", "job", "le", "quantile"),  # reserved by Prometheus
    }
)
EXAMPLES = """\
Examples:
  gpu-ledger-amd-exporter
  gpu-ledger-amd-exporter --source rocm-smi --collection-interval 15 --log-level DEBUG
  gpu-ledger-amd-exporter --tls-cert tls.crt --tls-key tls.key --extra-labels rack=r12
  gpu-ledger-amd-exporter --once        print one collection and exit
"""


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """All settings, with valid values."""

    address: str
    port: int
    metrics_path: str
    interval_seconds: float
    log_level: str
    source: str
    rocm_path: Path
    sysfs_path: Path
    node_name: str
    pod_resources_socket: Path | None
    extra_labels: Mapping[str, str]
    node_labels: tuple[str, ...]
    read_node: bool
    api_url: str
    tls_cert: Path | None
    tls_key: Path | None
    tls_client_ca: Path | None
    once: bool


def _port(value: str) -> int:
    if not value.isdigit() or not 1 <= int(value) <= 65535:
        raise ValueError("not a port between 1 and 65535")
    return int(value)


def _address(value: str) -> str:
    ipaddress.ip_address(value)
    return value


def _path(value: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9._~/-]{0,100}", value) or value in ("/healthz", "/readyz"):
        raise ValueError("not a path such as /metrics, or the path of a probe")
    return value


def _interval(value: str) -> float:
    seconds = float(value)
    if not 5 <= seconds <= 3600:
        raise ValueError("not between 5 and 3600 seconds")
    return seconds


def _one_of(*words: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        for word in words:
            if value.lower() == word.lower():
                return word
        raise ValueError(f"not one of {', '.join(words)}")

    return read


def _file(value: str) -> Path | None:
    if not value:
        return None
    path = Path(value)
    with path.open("rb"):
        return path


def _socket(value: str) -> Path | None:
    if value and not Path(value).is_absolute():
        raise ValueError("not an absolute path")
    return Path(value) if value else None


def _folder(value: str) -> Path:
    return Path(value)


def _switch(value: str) -> bool:
    if value.lower() not in ("true", "false", "1", "0", "yes", "no"):
        raise ValueError("neither true nor false")
    return value.lower() in ("true", "1", "yes")


def _labels(value: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in value.split(","))):
        name, equals, label = pair.partition("=")
        if not equals or not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]{0,62}", name):
            raise ValueError(f"{pair!r} is not NAME=VALUE with a name of letters, digits and _")
        if name in OWN_LABELS or name in labels:
            raise ValueError(f"the label {name} is there already")
        if len(label) > LABEL_VALUE_LIMIT:
            raise ValueError(f"the value of {name} has more than {LABEL_VALUE_LIMIT} characters")
        labels[name] = label
    return labels


def _label_keys(value: str) -> tuple[str, ...]:
    keys = tuple(filter(None, (part.strip() for part in value.split(","))))
    for key in keys:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,316}", key):
            raise ValueError(f"{key!r} is not the key of a node label")
    return keys


def label_name(key: str) -> str:
    """The metric label of a node label: `topology.kubernetes.io/zone` → `label_topology_…_zone`."""
    return "label_" + re.sub(r"[^a-zA-Z0-9]", "_", key)


@dataclass(frozen=True, slots=True)
class _Setting:
    flag: str
    variable: str
    default: str
    read: Callable[[str], Any]
    help: str


SETTINGS = (
    _Setting("listen-address", "LISTEN_ADDRESS", "0.0.0.0", _address, "Address to listen on."),
    _Setting("port", "EXPORTER_PORT", "9400", _port, "Port to listen on."),
    _Setting("metrics-path", "METRICS_PATH", "/metrics", _path, "Path of the metrics."),
    _Setting(
        "collection-interval",
        "COLLECTION_INTERVAL",
        "30",
        _interval,
        "Seconds between two collections, 5 to 3600.",
    ),
    _Setting("log-level", "LOG_LEVEL", "INFO", _one_of(*LOG_LEVELS), ", ".join(LOG_LEVELS) + "."),
    _Setting(
        "source",
        "SOURCE",
        "auto",
        _one_of(*SOURCES),
        "Source of readings: amdsmi, amd-smi or rocm-smi; auto takes the first that works.",
    ),
    _Setting("rocm-path", "ROCM_PATH", "/opt/rocm", _folder, "Folder of the ROCm installation."),
    _Setting("sysfs-path", "SYSFS_PATH", "/sys", _folder, "Folder of the kernel's files."),
    _Setting("node-name", "NODE_NAME", "", str, "Name of the node; the host's name by default."),
    _Setting(
        "pod-resources-socket",
        "POD_RESOURCES_SOCKET",
        "",
        _socket,
        "Socket of the kubelet that lists the pods of GPUs; without it metrics have no pod labels.",
    ),
    _Setting(
        "extra-labels",
        "EXTRA_LABELS",
        "",
        _labels,
        f"Labels for every GPU, NAME=VALUE,…; {EXTRA_LABELS_LIMIT} with those of the node.",
    ),
    _Setting(
        "node-labels",
        "NODE_LABELS",
        "",
        _label_keys,
        "Keys of node labels to show as label_KEY; needs --read-node.",
    ),
    _Setting(
        "read-node",
        "READ_NODE",
        "false",
        _switch,
        "Read the node's capacity and labels from the Kubernetes API.",
    ),
    _Setting(
        "api-url",
        "KUBERNETES_API_URL",
        "https://kubernetes.default.svc",
        str,
        "URL of the Kubernetes API, for --read-node.",
    ),
    _Setting("tls-cert", "TLS_CERT_FILE", "", _file, "Certificate to serve with, PEM."),
    _Setting("tls-key", "TLS_KEY_FILE", "", _file, "Key of the certificate, PEM."),
    _Setting(
        "tls-client-ca",
        "TLS_CLIENT_CA_FILE",
        "",
        _file,
        "CA of the clients that may read the metrics, PEM; without it every client may.",
    ),
)


def parser() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog="gpu-ledger-amd-exporter",
        description="Serve metrics of the AMD GPUs of this node to Prometheus.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for setting in SETTINGS:
        command.add_argument(
            f"--{setting.flag}",
            metavar=setting.flag.rpartition("-")[2].upper(),
            help=f"{setting.help} [{setting.variable}; default: {setting.default or 'none'}]",
        )
    command.add_argument("--once", action="store_true", help="Print one collection and exit.")
    return command


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> ExporterSettings:
    """The settings. If any is invalid, print every error and exit with status 2."""
    command = parser()
    given = vars(command.parse_args(arguments))
    values: dict[str, Any] = {}
    errors = []
    for setting in SETTINGS:
        flag = given[setting.flag.replace("-", "_")]
        written = flag if flag is not None else environment.get(setting.variable, setting.default)
        try:
            values[setting.flag] = setting.read(written)
        except (ValueError, OSError) as error:
            name = f"--{setting.flag}" if flag is not None else setting.variable
            errors.append(f"{name}={written!r}: {error}")
    errors += [] if errors else _contradictions(values)
    if errors:
        command.error("\n  ".join(["invalid settings", *errors]))
    return ExporterSettings(
        address=values["listen-address"],
        port=values["port"],
        metrics_path=values["metrics-path"],
        interval_seconds=values["collection-interval"],
        log_level=values["log-level"],
        source=values["source"],
        rocm_path=values["rocm-path"],
        sysfs_path=values["sysfs-path"],
        node_name=values["node-name"] or socket.gethostname(),
        pod_resources_socket=values["pod-resources-socket"],
        extra_labels=values["extra-labels"],
        node_labels=values["node-labels"],
        read_node=values["read-node"],
        api_url=values["api-url"].rstrip("/"),
        tls_cert=values["tls-cert"],
        tls_key=values["tls-key"],
        tls_client_ca=values["tls-client-ca"],
        once=given["once"],
    )


def _contradictions(values: Mapping[str, Any]) -> list[str]:
    errors = []
    if (values["tls-cert"] is None) != (values["tls-key"] is None):
        errors.append("--tls-cert and --tls-key belong together: one of them is missing")
    if values["tls-client-ca"] is not None and values["tls-cert"] is None:
        errors.append("--tls-client-ca needs --tls-cert and --tls-key")
    if values["node-labels"] and not values["read-node"]:
        errors.append("--node-labels needs --read-node true")
    if not values["api-url"].startswith("https://"):
        errors.append(f"--api-url={values['api-url']!r}: not an https:// URL")
    names = [*values["extra-labels"], *map(label_name, values["node-labels"])]
    if len(names) > EXTRA_LABELS_LIMIT:
        errors.append(f"{len(names)} extra labels are more than {EXTRA_LABELS_LIMIT}")
    if len(set(names)) < len(names):
        errors.append("two of --extra-labels and --node-labels give one label name")
    return errors
