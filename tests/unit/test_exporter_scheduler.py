"""The scheduler's resource metrics, compared with a real scheduler's for the same pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fake_gpu.exporters.scheduler import effective, exposition
from tests.shared_data import shared_text


def test_the_page_equals_the_real_schedulers_byte_for_byte() -> None:
    items = json.loads(shared_text("control-plane/objects.json"))["items"]
    pods = [item for item in items if item["kind"] == "Pod"]
    assert exposition(pods) == shared_text("control-plane/scheduler-resources.prom")


def test_without_pods_the_page_is_empty() -> None:
    assert exposition([]) == ""


def _pod(containers: list[int], init: list[tuple[int, bool]]) -> dict[str, Any]:
    def container_requesting(count: int) -> dict[str, Any]:
        return {"resources": {"requests": {"nvidia.com/gpu": str(count)}}}

    starting = [
        {**container_requesting(count), **({"restartPolicy": "Always"} if stays else {})}
        for count, stays in init
    ]
    return {
        "spec": {
            "containers": list(map(container_requesting, containers)),
            "initContainers": starting,
        }
    }


@pytest.mark.parametrize(
    ("containers", "init", "needed"),
    [
        ([1], [], 1),
        ([1, 2], [], 3),
        ([1], [(2, False)], 2),
        ([1], [(2, False), (1, True)], 2),  # measured: prep 2, sidecar 1, main 1
        ([1], [(1, True), (2, False)], 3),  # the sidecar runs while prep does
        ([2], [(1, True)], 3),
    ],
)
def test_the_effective_request_follows_the_maximum_rule(
    containers: list[int], init: list[tuple[int, bool]], needed: int
) -> None:
    assert effective(_pod(containers, init))["nvidia.com/gpu"] == needed
