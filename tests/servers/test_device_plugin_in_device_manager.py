"""The device plugin in the kubelet's own device manager: capacity, allocation, restarts, failures.

The manager listens below /var/lib/kubelet. A mount namespace puts the test's folder there, so that
any user can run the test.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_gpu.cluster.backends import KubeletBackend
from fake_gpu.cluster.configuration import read_configuration
from fake_gpu.cluster.exporter import AgentMetrics
from fake_gpu.cluster.failures import Failure, health_of
from fake_gpu.cluster.hardware import Hardware, without_mig
from fake_gpu.cluster.holders import assigned_holdings
from tests.servers.process import missing, required, wait_for

pytestmark = pytest.mark.servers

GPU = "nvidia.com/gpu"
FOUR = "nodes: {n: {gpu-product: Tesla-T4, gpus: [{id: g0}, {id: g1}, {id: g2}, {id: g3}]}}"
IN_NAMESPACE = (
    "mount -t tmpfs none /var/lib; mkdir /var/lib/kubelet; "
    'mount --bind "$1" /var/lib/kubelet; exec "$2"'
)


class DeviceManager:
    """The process; one line of JSON for each command."""

    def __init__(self, folder: Path) -> None:
        program = required("device-manager")
        unshare = ["unshare", "-rm", "--propagation", "private", "sh", "-ec", IN_NAMESPACE, "sh"]
        self._process = subprocess.Popen(
            [*unshare, str(folder), str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if not self._read().get("ready"):
            missing("unshare -rm is not permitted here")

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found: dict[str, Any] = json.loads(line) if line else {}
        return found

    def do(self, command: str, **more: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": command, **more}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def counts(self) -> tuple[int, int]:
        """Capacity and allocatable of whole GPUs."""
        found = self.do("capacity")
        return int(found["capacity"].get(GPU, 0)), int(found["allocatable"].get(GPU, 0))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Node:
    """A kubelet folder, its device manager and our backend."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        self.hardware: Hardware = without_mig(
            "n", read_configuration(text, "test").by_name["n"].spec
        )
        self.manager = DeviceManager(folder)
        sockets = folder / "pod-resources" / "kubelet.sock"
        self.backend = KubeletBackend(folder / "device-plugins", sockets, AgentMetrics())
        self.pods: list[dict[str, Any]] = []

    def step(self, *failures: Failure) -> None:
        health = health_of(self.hardware, failures)
        offers = list(self.hardware.offers())
        self.backend.offer({"metadata": {"name": "n"}}, offers, health, failures)

    def counted(self, expected: tuple[int, int], *failures: Failure) -> bool:
        self.step(*failures)
        return self.manager.counts() == expected

    def admit(self, name: str, **spec: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "a", "uid": f"uid-{name}"}
        pod = {"metadata": metadata, "spec": {"nodeName": "n", **spec}, "status": {}}
        self.pods.append(pod)
        return self.manager.do("admit", pod=pod)

    def holders(self) -> dict[str, tuple[str, str]]:
        offers = list(self.hardware.offers())
        found = self.backend.holdings(offers, self.pods, [])
        return {h.offer_id: (h.pod, h.container) for h in found}


@pytest.fixture
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as folder:
        (Path(folder) / "device-plugins").mkdir()
        found = Node(Path(folder), FOUR)
        wait_for(lambda: found.counted((4, 4)))
        yield found
        found.backend.close()
        found.manager.kill()


def container(name: str, count: int, **more: str) -> dict[str, Any]:
    limits = {GPU: str(count)}
    return {"name": name, "resources": {"limits": limits, "requests": limits}, **more}


def test_devices_of_init_containers_stay_taken_but_in_no_container(node: Node) -> None:
    admitted = node.admit(
        "p",
        initContainers=[container("i", 2), container("s", 1, restartPolicy="Always")],
        containers=[container("m", 1)],
    )
    assert admitted["i"]["options"].get("Envs") in (None, [])
    holders = node.holders()
    # Without a kubelet, the agent assigns the same number of devices to each container itself.
    assigned = assigned_holdings(list(node.hardware.offers()), node.pods, [])
    assert sorted(c for _, c in holders.values()) == sorted(h.container for h in assigned)
    # The status updater reports the devices that the manager assigned to the containers.
    given = {i: name for name in ("s", "m") for i in admitted[name]["devices"][GPU]}
    assert {i: c for i, (_, c) in holders.items() if c} == given
    used = set(given) | set(admitted["i"]["devices"][GPU])
    assert set(holders) == used
    refused = node.admit("q", containers=[container("m", 5 - len(used))])
    assert "Requested" in refused["refused"]


def test_unhealthy_devices_leave_allocatable_and_come_back(node: Node) -> None:
    wait_for(lambda: node.counted((4, 3), Failure("unhealthy", "0")))
    wait_for(lambda: node.counted((3, 3), Failure("lost", "1")))
    wait_for(lambda: node.counted((4, 4)))
    wait_for(lambda: node.counted((4, 0), Failure("crash")))
    wait_for(lambda: node.counted((4, 4)))
    assert node.manager.counts() == (4, 4)


def test_a_refused_allocate_reaches_the_pod_and_takes_nothing(node: Node) -> None:
    node.step(Failure("refuse", message="out of order"))
    assert "out of order" in node.admit("p", containers=[container("m", 2)])["refused"]
    node.step()
    node.pods.clear()
    assert set(node.admit("q", containers=[container("m", 4)])) == {"m"}


def test_a_slow_allocate_is_waited_for(node: Node) -> None:
    node.step(Failure("slow", seconds=0.5))
    started = time.monotonic()
    assert set(node.admit("p", containers=[container("m", 1)])) == {"m"}
    assert time.monotonic() - started >= 0.5


def test_a_removed_socket_is_found_by_a_restarted_kubelet(node: Node) -> None:
    """A restarted manager counts no device until the socket is back."""
    node.step(Failure("socket"))
    node.manager.kill()
    node.manager = DeviceManager(node.folder)
    assert node.counted((0, 0), Failure("socket"))
    wait_for(lambda: node.counted((4, 4)))


def test_pods_keep_their_devices_over_a_restart_of_the_kubelet(node: Node) -> None:
    first = node.admit("p", containers=[container("m", 2)])["m"]["devices"][GPU]
    node.manager.kill()
    node.manager = DeviceManager(node.folder)
    node.manager.do("known", pod=node.pods[0])
    wait_for(lambda: node.counted((4, 4)))
    second = node.admit("q", containers=[container("m", 2)])["m"]["devices"][GPU]
    assert set(first) | set(second) == {"g0", "g1", "g2", "g3"}
    assert node.holders() == dict.fromkeys(first, ("p", "m")) | dict.fromkeys(second, ("q", "m"))
