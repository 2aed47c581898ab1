"""`gpu-ledger fake cluster`: simulated GPUs on the nodes of a real Kubernetes cluster.

Put here: options, signals, and the writing of failures.
Not here: the agent itself (`fake_gpu.cluster`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, cast

import click
import yaml

from clients.kubeconfig import find_cluster_access
from clients.kubernetes import KubernetesClient
from domain.errors import UnknownName
from fake_gpu.cluster.agent import (
    FAILURES_CONFIG_MAP,
    FAILURES_KEY,
    TOPOLOGY_PREFIX,
    Agent,
    AgentSettings,
    ClusterWatch,
    remove_everything,
    run_agent,
)
from fake_gpu.cluster.backends import Backend, KubeletBackend, KwokBackend
from fake_gpu.cluster.configuration import KEY, ClusterConfiguration, read_configuration
from fake_gpu.cluster.exporter import ExporterServer, Names, TopologyExporter
from fake_gpu.cluster.failures import (
    DEVICE_MODES,
    MODES,
    Failure,
    Failures,
    read_failures,
    write_failures,
)
from fake_gpu.cluster.hardware import without_mig
from fake_gpu.cluster.topology import read_topology
from fake_gpu.scenario.design_config import MAXIMUM_CHARACTERS
from orchestration.cli.output import emit, emit_result, kubeconfig_option, output_option
from orchestration.cli.signals import stop_event

MANAGER = "gpu-ledger-fake-cluster"
DEFAULT_NAMESPACE = "gpu-ledger-fake-gpus"
PORT = 9400

namespace_option = click.option(
    "--namespace",
    envvar="POD_NAMESPACE",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="Namespace of the ConfigMaps.",
)


EPILOG = """\b
Examples:
  gpu-ledger fake cluster check topology.yml
  kubectl apply -k deploy/fake-gpu/overlays/kwok
  gpu-ledger fake cluster fail node-a --mode unhealthy --device 0
"""


@click.group(name="cluster", no_args_is_help=True, epilog=EPILOG)
def cluster() -> None:
    """Show simulated GPUs on the nodes of a real Kubernetes cluster.

    deploy/fake-gpu has the manifests that run it.
    """


CHECK_EPILOG = """\b
Examples:
  gpu-ledger fake cluster check topology.yml
  kubectl -n gpu-ledger-fake-gpus get configmap topology -o yaml | gpu-ledger fake cluster check -
"""


@cluster.command(epilog=CHECK_EPILOG)
@click.argument("file", type=click.File("rb"))
@output_option
def check(file: BinaryIO, output: str) -> None:
    """Check a configuration FILE, bare or as a ConfigMap, and list the devices of its nodes."""
    text = file.read(MAXIMUM_CHARACTERS).decode("utf-8", errors="replace")
    configuration = read_configuration(text, file.name)
    for warning in configuration.warnings:
        click.echo(f"warning: {warning}", err=True)
    emit(list(_rows(configuration)), output, title=file.name, empty=f"{file.name} has no nodes.")


def _rows(configuration: ClusterConfiguration) -> Iterator[dict[str, object]]:
    entries = [("node", *item) for item in configuration.by_name.items()]
    entries += [("pool", *item) for item in configuration.by_pool.items()]
    for kind, name, template in entries:
        hardware = without_mig(name, template.spec)
        for offer in hardware.offers():
            given = template.given.get(offer.device.card_index)
            yield {
                kind: name,
                "product": template.spec.product,
                "device": offer.offer_id,
                "resource": offer.resource,
                "memory_mib": offer.device.memory_mib,
                "shown_pod": f"{given.namespace}/{given.pod}" if given else "",
            }


RUN_EPILOG = """\b
Examples:
  gpu-ledger fake cluster run --node-name worker-1     one node with a kubelet (DaemonSet)
  gpu-ledger fake cluster run                          all nodes of kwok (Deployment)
"""


@cluster.command(epilog=RUN_EPILOG)
@click.option(
    "--node-name",
    envvar="NODE_NAME",
    default="",
    help="The node with a kubelet on which this process runs; without it all nodes of kwok.",
)
@namespace_option
@kubeconfig_option
@click.option(
    "--kubelet-folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/var/lib/kubelet"),
    show_default=True,
    help="Folder of the kubelet, with device-plugins and pod-resources.",
)
@click.option(
    "--mig-config-map",
    default=AgentSettings.__dataclass_fields__["mig_config_map"].default,
    show_default=True,
    metavar="NAMESPACE/NAME",
    help="ConfigMap of mig-parted, for the label nvidia.com/mig.config.",
)
@click.option(
    "--mig-seconds",
    type=click.FloatRange(0, 3600),
    default=5.0,
    show_default=True,
    help="Seconds for which devices are unavailable during a MIG change.",
)
@click.option(
    "--dcgm-names",
    type=click.Choice(["old", "new", "both"]),
    default="old",
    show_default=True,
    help="Metric names of the exporter: before DCGM 4.7, since then, or both.",
)
@click.option("--address", default="", help="Address of the exporter (default: all).")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port of the exporter.",
)
def run(
    node_name: str,
    namespace: str,
    kubeconfig: Path | None,
    kubelet_folder: Path,
    mig_config_map: str,
    mig_seconds: float,
    dcgm_names: str,
    address: str,
    port: int,
) -> None:
    """Serve the simulated GPUs of one node, or of all kwok nodes, until SIGTERM.

    Device plugin, status updater, DCGM exporter and feature discovery are parts of one process. The
    configuration is the ConfigMap `topology` of the namespace; changes apply immediately, and an
    invalid configuration is ignored.
    """
    logging.basicConfig(
        level="INFO", stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    client = KubernetesClient(find_cluster_access(kubeconfig))
    settings = AgentSettings(namespace, mig_config_map, mig_seconds, node_name)
    exporter = TopologyExporter(cast(Names, dcgm_names))

    def backend_of(_: str) -> Backend:
        if not node_name:
            return KwokBackend(client)
        plugins = kubelet_folder / "device-plugins"
        socket = kubelet_folder / "pod-resources" / "kubelet.sock"
        return KubeletBackend(plugins, socket, exporter.metrics)

    server = ExporterServer(address, port, exporter)
    server.start()
    with stop_event() as stop:
        agent = Agent(client, settings, exporter, backend_of)
        watch = ClusterWatch(client, settings, stop)

        def ready() -> None:
            server.is_ready = True
            click.echo(f"Ready; metrics on port {server.port}.", err=True)

        run_agent(agent, watch, exporter, stop, ready)
    server.shutdown()


FAIL_EPILOG = """\b
Examples:
  gpu-ledger fake cluster fail node-a --mode unhealthy --device 0
  gpu-ledger fake cluster fail node-a --mode xid --device 1 --xid 79
  gpu-ledger fake cluster fail node-a --mode slow --seconds 30
"""


@cluster.command(epilog=FAIL_EPILOG)
@click.argument("node")
@click.option("--mode", type=click.Choice(MODES), required=True, help="The failure.")
@click.option(
    "--device",
    default="",
    help="Index of a card, or ID of a card or of a device; without it all devices of the node.",
)
@click.option("--xid", type=click.IntRange(1, 999), help="XID that the exporter shows.")
@click.option("--message", default="", help="Message of a refused Allocate call.")
@click.option("--seconds", type=click.FloatRange(0, 600), help="Duration of a slow Allocate call.")
@namespace_option
@kubeconfig_option
@output_option
def fail(
    node: str,
    mode: str,
    device: str,
    xid: int | None,
    message: str,
    seconds: float | None,
    namespace: str,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Simulate a failure on NODE until `recover` is run.

    \b
    unhealthy, xid, ecc   the device is removed from allocatable, not from capacity
    lost                  the device is removed from both
    refuse, slow          Allocate calls are rejected or delayed
    crash                 the device plugin is stopped
    socket                the socket of the device plugin is removed
    """
    with closing(KubernetesClient(find_cluster_access(kubeconfig))) as client:
        _check_device(client, namespace, node, mode, device)
        given = Failure(mode, device, xid or 0, message, seconds or 0.0).as_entry()
        [new] = read_failures(yaml.safe_dump({node: [given]}), "the command")[node]
        failures = dict(_failures(client, namespace))
        kept = [f for f in failures.get(node, ()) if (f.mode, f.device) != (mode, device)]
        failures[node] = (*kept, new)
        _store(client, namespace, failures)
    emit_result({"node": node, **new.as_entry()}, output, f"{node}: {mode} is on.")


def _check_device(
    client: KubernetesClient, namespace: str, node: str, mode: str, device: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/{TOPOLOGY_PREFIX}{node}"
    found = client.find(path)
    if found is None:
        raise _no_such_device(node, f"no ConfigMap {namespace}/{TOPOLOGY_PREFIX}{node}")
    if mode not in DEVICE_MODES or not device:
        return
    hardware = read_topology(yaml.safe_load(found["data"][KEY])).hardware
    known = {str(card.index) for card in hardware.cards} | {c.card_id for c in hardware.cards}
    known |= {d.device_id for d in hardware.devices}
    if device not in known:
        listed = ", ".join(sorted(known))
        raise _no_such_device(node, f"device {device!r} is none of {listed}"[:500])


def _no_such_device(node: str, seen: str) -> UnknownName:
    return UnknownName(
        where=f"node {node}",
        seen=seen,
        why="a failure of another device would be simulated",
        remedy="list the devices: kubectl get configmap topology-NODE -o yaml",
    )


RECOVER_EPILOG = """\b
Examples:
  gpu-ledger fake cluster recover node-a
  gpu-ledger fake cluster recover node-a --mode unhealthy
"""


@cluster.command(epilog=RECOVER_EPILOG)
@click.argument("node")
@click.option("--mode", type=click.Choice(MODES), help="The failure that ends (default: all).")
@namespace_option
@kubeconfig_option
@output_option
def recover(
    node: str, mode: str | None, namespace: str, kubeconfig: Path | None, output: str
) -> None:
    """End the failures of NODE."""
    with closing(KubernetesClient(find_cluster_access(kubeconfig))) as client:
        failures = dict(_failures(client, namespace))
        before = failures.get(node, ())
        failures[node] = tuple(f for f in before if mode is not None and f.mode != mode)
        _store(client, namespace, failures)
    ended = len(before) - len(failures[node])
    emit_result({"node": node, "ended": ended}, output, f"{node}: {ended} failures ended.")


def _failures(client: KubernetesClient, namespace: str) -> Failures:
    path = f"/api/v1/namespaces/{namespace}/configmaps/{FAILURES_CONFIG_MAP}"
    text = ((client.find(path) or {}).get("data") or {}).get(FAILURES_KEY, "")
    return read_failures(text, f"ConfigMap {namespace}/{FAILURES_CONFIG_MAP}")


def _store(client: KubernetesClient, namespace: str, failures: Failures) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": FAILURES_CONFIG_MAP, "namespace": namespace},
        "data": {FAILURES_KEY: write_failures(failures)},
    }
    path = f"/api/v1/namespaces/{namespace}/configmaps/{FAILURES_CONFIG_MAP}"
    client.apply(path, document, field_manager=MANAGER, force=True)


REMOVE_EPILOG = """\b
Examples:
  gpu-ledger fake cluster remove && kubectl delete -k deploy/fake-gpu/overlays/kwok
"""


@cluster.command(epilog=REMOVE_EPILOG)
@kubeconfig_option
@output_option
def remove(kubeconfig: Path | None, output: str) -> None:
    """Remove the labels and resources that agents wrote to nodes. End the agents first."""
    with closing(KubernetesClient(find_cluster_access(kubeconfig))) as client:
        removed = remove_everything(client)
    emit_result({"nodes": removed}, output, f"Removed from {len(removed)} nodes.")
