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
from contextlib import contextmanager
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

    def counts(self, resource: str = GPU) -> tuple[int, int]:
        """Capacity and allocatable of a resource."""
        found = self.do("capacity")
        capacity, allocatable = found["capacity"], found["allocatable"]
        return int(capacity.get(resource, 0)), int(allocatable.get(resource, 0))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Node:
    """A kubelet folder, its device manager and our backend."""

    def __init__(self, folder: Path, text: str, *layouts: dict[str, int] | None) -> None:
        self.folder = folder
        hardware = without_mig("n", read_configuration(text, "test").by_name["n"].spec)
        self.hardware: Hardware = hardware.with_layouts(layouts) if layouts else hardware
        self.manager = DeviceManager(folder)
        sockets = folder / "pod-resources" / "kubelet.sock"
        self.backend = KubeletBackend(folder / "device-plugins", sockets, AgentMetrics())
        self.pods: list[dict[str, Any]] = []

    def step(self, *failures: Failure) -> None:
        health = health_of(self.hardware, failures)
        offers = list(self.hardware.offers())
        self.backend.offer({"metadata": {"name": "n"}}, offers, health, failures)

    def counted(self, expected: tuple[int, int], *failures: Failure, resource: str = GPU) -> bool:
        self.step(*failures)
        return self.manager.counts(resource) == expected

    def admit(self, name: str, **spec: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "a", "uid": f"uid-{name}"}
        pod = {"metadata": metadata, "spec": {"nodeName": "n", **spec}, "status": {}}
        self.pods.append(pod)
        return self.manager.do("admit", pod=pod)

    def holders(self) -> dict[str, tuple[str, str]]:
        offers = list(self.hardware.offers())
        found = self.backend.holdings(offers, self.pods, [])
        return {h.offer_id: (h.pod, h.container) for h in found}


@contextmanager
def node_of(text: str, *layouts: dict[str, int] | None) -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as folder:
        (Path(folder) / "device-plugins").mkdir()
        found = Node(Path(folder), text, *layouts)
        try:
            yield found
        finally:
            found.backend.close()
            found.manager.kill()


@pytest.fixture
def node() -> Iterator[Node]:
    with node_of(FOUR) as found:
        wait_for(lambda: found.counted((4, 4)))
        yield found


def container(name: str, count: int, *, resource: str = GPU, **more: str) -> dict[str, Any]:
    limits = {resource: str(count)}
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


MIXED = "{mig-strategy: mixed, nodes: {n: {gpu-product: A100-SXM4-40GB, gpus: [{id: a}, {id: b}]}}}"
SHARED = "nodes: {n: {gpu-product: Tesla-T4, replicas: 3, gpus: [{id: g0}, {id: g1}]}}"
AMD = "nodes: {n: {gpu-product: AMD_Instinct_MI300X, gpus: [{id: x}, {id: y}]}}"
SLICE, HALF = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
TWO_LAYOUTS = ({"1g.5gb": 2, "3g.20gb": 1}, {"1g.5gb": 3})


@pytest.mark.parametrize(
    ("text", "layouts", "resource", "devices", "of_card_0"),
    [
        (MIXED, TWO_LAYOUTS, SLICE, 5, 2),
        (SHARED, (), GPU, 6, 3),
        (AMD, (), "amd.com/gpu", 2, 1),
    ],
    ids=["mig", "replicas", "amd"],
)
def test_every_kind_of_resource_is_allocated_fails_and_registers_again(
    text: str,
    layouts: tuple[dict[str, int], ...],
    resource: str,
    devices: int,
    of_card_0: int,
) -> None:
    with node_of(text, *layouts) as node:
        wait_for(lambda: node.counted((devices, devices), resource=resource))
        held = node.admit("p", containers=[container("m", 2, resource=resource)])
        first = held["m"]["devices"][resource]
        ids = {o.offer_id for o in node.hardware.offers() if o.resource == resource}
        assert len(ids) == devices
        assert set(first) <= ids
        assert node.holders() == dict.fromkeys(first, ("p", "m"))
        # The devices of card 0 become unhealthy: allocatable drops, capacity stays.
        unhealthy = Failure("unhealthy", "0")
        left = devices - of_card_0
        wait_for(lambda: node.counted((devices, left), unhealthy, resource=resource))
        wait_for(lambda: node.counted((devices, devices), resource=resource))
        # The kubelet restarts: all sockets are gone, and each plugin registers again.
        node.manager.kill()
        node.manager = DeviceManager(node.folder)
        node.manager.do("known", pod=node.pods[0])
        wait_for(lambda: node.counted((devices, devices), resource=resource))
        assert node.holders() == dict.fromkeys(first, ("p", "m"))
        refused = node.admit("q", containers=[container("m", devices - 1, resource=resource)])
        assert "Requested" in refused["refused"]
        node.pods.pop()
        if devices > 2:
            rest = node.admit("r", containers=[container("m", devices - 2, resource=resource)])
            assert set(rest["m"]["devices"][resource]) == ids - set(first)


def test_one_unhealthy_instance_leaves_the_other_resources() -> None:
    with node_of(MIXED, *TWO_LAYOUTS) as mig:
        wait_for(lambda: mig.counted((5, 5), resource=SLICE))
        [half] = [d.device_id for d in mig.hardware.devices if d.resource == HALF]
        failure = Failure("unhealthy", half)
        wait_for(lambda: mig.counted((1, 0), failure, resource=HALF))
        assert mig.manager.counts(SLICE) == (5, 5)


def test_a_new_layout_leaves_the_old_resource_with_nothing_to_allocate() -> None:
    with node_of(MIXED, *TWO_LAYOUTS) as mig:
        wait_for(lambda: mig.counted((1, 1), resource=HALF))
        mig.hardware = mig.hardware.with_layouts([None, {"1g.5gb": 3}])
        wait_for(lambda: mig.counted((1, 0), resource=HALF))
        wait_for(lambda: mig.counted((3, 3), resource=SLICE))
        wait_for(lambda: mig.counted((1, 1)))
        assert mig.manager.counts(HALF) == (1, 0)
