"""Effective requests, compared with a real scheduler's and with Kubernetes' rules for
quantities.
"""

from __future__ import annotations

import pytest

from domain.gpu import may_be_a_device
from domain.request import (
    LARGEST_QUANTITY,
    InitContainer,
    NotACount,
    effective_request,
    effective_request_of_pod,
    parse_count,
)

GPU = "nvidia.com/gpu"


def container(**devices: str) -> dict[str, object]:
    names = {"gpu": GPU, "plus": "nvidia.com/mig-1g.24gb.me", "minus": "nvidia.com/mig-1g.24gb-me"}
    requests = {names[name]: count for name, count in devices.items()}
    return {"resources": {"requests": requests | {"cpu": "500m"}, "limits": requests}}


def test_effective_requests_equal_those_of_a_real_scheduler() -> None:
    """`kube_pod_resource_request` of kube-scheduler 1.34 for a pod with all three kinds."""
    spec = {
        "initContainers": [
            container(gpu="2"),
            container(gpu="1") | {"restartPolicy": "Always"},
        ],
        "containers": [container(gpu="1"), container(plus="1", minus="1")],
    }
    assert effective_request_of_pod(spec, may_be_a_device) == {
        GPU: 2,
        "nvidia.com/mig-1g.24gb.me": 1,
        "nvidia.com/mig-1g.24gb-me": 1,
    }


@pytest.mark.parametrize(
    ("containers", "init_containers", "devices"),
    [
        ([1], [], 1),
        ([1, 2], [], 3),
        ([1], [(4, False)], 4),  # reused, never added
        ([1], [(4, False), (2, False)], 4),
        ([1], [(1, True)], 2),  # a sidecar keeps its devices
        ([1], [(1, True), (2, False)], 3),  # earlier sidecars run during an init container
        ([1], [(2, False), (1, True)], 2),  # later sidecars do not
        ([0], [(3, False)], 3),
        ([], [], 0),
    ],
)
def test_init_containers_release_devices_and_sidecars_keep_them(
    containers: list[int], init_containers: list[tuple[int, bool]], devices: int
) -> None:
    found = effective_request(
        [{GPU: count} for count in containers],
        [InitContainer({GPU: count}, is_sidecar) for count, is_sidecar in init_containers],
    )
    assert found == ({GPU: devices} if devices else {})


def test_overhead_is_added() -> None:
    assert effective_request([{GPU: 1}], overhead={GPU: 1}) == {GPU: 2}


def test_a_limit_without_a_request_is_the_request() -> None:
    spec = {"containers": [{"resources": {"limits": {GPU: "4"}}}]}
    assert effective_request_of_pod(spec, may_be_a_device) == {GPU: 4}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": None},
        {"containers": [{}]},
        {"containers": [{"resources": None}]},
        {"containers": ["x"]},
        {"containers": [{"resources": {"requests": {GPU: "0"}}}]},
        {"containers": [{"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}]},
    ],
)
def test_a_pod_without_devices_holds_none(spec: dict[str, object]) -> None:
    assert effective_request_of_pod(spec, may_be_a_device) == {}


@pytest.mark.parametrize(
    ("quantity", "count"),
    [
        ("0", 0),
        ("8", 8),
        (8, 8),
        ("+8", 8),
        ("1k", 1000),
        ("2Ki", 2048),
        ("4000m", 4),
        ("1e3", 1000),
        ("1E3", 1000),
        ("8.0", 8),
        ("8.", 8),
        ("1.5k", 1500),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_an_integer_quantity_is_a_count(quantity: object, count: int) -> None:
    assert parse_count(quantity) == count


@pytest.mark.parametrize(
    "quantity",
    [
        "",
        "-1",
        "0.5",
        "500m",
        "1n",
        "NaN",
        "Inf",
        "1e308",
        "9223372036854775808",
        "1 ",
        "1kk",
        "١",
        "1\n",
        "1e999999999",
        "9" * 5000,
        None,
        True,
        1.0,
        [],
    ],
)
def test_other_quantities_are_refused(quantity: object) -> None:
    with pytest.raises(NotACount):
        parse_count(quantity)


def test_quantities_without_an_integer_sum_are_refused() -> None:
    most = {"nvidia.com/gpu": LARGEST_QUANTITY}
    assert effective_request([most]) == most
    with pytest.raises(NotACount, match="9223372036854775808"):
        effective_request([most, {"nvidia.com/gpu": 1}])
