"""The errors of simulated GPUs in a cluster.

Put here: the errors of this package.
Not here: errors of the API server (`clients.kubernetes_errors`) and of the configuration's format
(`fake_gpu.scenario.errors`).
"""

from __future__ import annotations

from domain.errors import TemporarilyUnavailable
from fake_gpu.scenario.errors import InvalidScenario


class InvalidClusterConfiguration(InvalidScenario):
    """A configuration that no simulated GPUs can be made of."""

    def __init__(self, where: str, seen: str) -> None:
        super().__init__(
            where=where,
            seen=seen,
            why="the nodes keep the GPUs of the last valid configuration",
            remedy="correct it, and check it: gpu-ledger fake cluster check FILE",
        )


class KubeletUnreachable(TemporarilyUnavailable):
    """The kubelet's sockets do not respond."""

    code = "SERVER-001"

    def __init__(self, socket: str, seen: str) -> None:
        super().__init__(
            where=f"the kubelet's socket {socket}",
            seen=seen,
            why="the node offers no simulated GPUs until the plugin is registered",
            remedy="check that the kubelet runs and that its folder is mounted; on nodes of kwok "
            "use the overlay kwok",
        )
