"""Every message of the simulated fleet, from an input that causes it, against its golden file.

Put here: errors of the simulator.
Not here: messages of other packages.

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.errors import LedgerError
from fake_gpu.clock import driven, fixed
from fake_gpu.cluster.configuration import read_configuration
from fake_gpu.cluster.plugin import list_pod_resources
from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import library_text, load_scenario, read_scenario
from fake_gpu.scenario.openb import openb_folder
from fake_gpu.scenario.trace import COLUMNS, parse_trace
from fake_gpu.scenario_change import require_same_past
from fake_gpu.serve import serve
from tests.fleets import HEAD, T0, fleet

GOLDEN = Path(__file__).parent / "golden"
NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)

BAD = """\
name: mine
from: 2026-10-01T00:00:00Z
until: 2026-10-02T00:00:00Z
clusters:
  - name: east
    node: []
    workloads:
      - {name: train, namespace: physics, requests: {nvidia.com/gpu: two}}
faults:
  - {fault: dropped_scrapes, share: 150%}
"""

TWICE = """\
clusters:
  - name: east
    nodes: [{name: gpu-a, product: Tesla-T4, cards: 1}]
    workloads:
      - name: train
        namespace: physics
        kind: Pod
        requests: 1
        pods:
          - {created: +1h, started: +1h, ended: +3h, node: gpu-a}
          - {created: +2h, started: +2h, ended: +4h, node: gpu-a}
"""

ONE_NAME = """\
clusters:
  - name: east
    workloads:
      - {name: db, namespace: physics, kind: StatefulSet}
      - {name: db-0, namespace: physics, kind: Pod, from: +2h}
"""


def a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 47_113))
        taken.listen()
        serve(fleet(f"{HEAD}clusters: [{{name: c}}]\n"), fixed(NOON), port=47_113)


def a_fault_that_never_fired() -> None:
    faults = fleet(
        f"{HEAD}clusters: [{{name: c}}]\nfaults: [{{fault: html_login, from: +2h}}]\n"
    ).faults
    FaultLedger().require_fired(faults)


def another_past() -> None:
    text = library_text("thin_line")
    later = text.replace("started: 2026-10-01T01:10:20Z", "started: 2026-10-01T01:10:25Z")
    old, new = (build_fleet(read_scenario(t, "thin_line", None)) for t in (text, later))
    require_same_past(old, new, T0 + 7200)


def a_row_that_cannot_be() -> None:
    row = "east,physics,p,u,,,nvidia.com/gpu,1,100,90,120,130,Succeeded,,"
    parse_trace(",".join(COLUMNS) + "\n" + row + "\n", "pods.csv")


PROVOKED: dict[str, Callable[[], object]] = {
    "FAKE-001": lambda: driven(NOON).advance_to(NOON.replace(hour=11)),
    "FAKE-002": lambda: read_scenario(BAD, "mine.yaml", None),
    "NAME-001-scenario": lambda: load_scenario("thick_line.yml"),
    "FAKE-002-cards": lambda: fleet(HEAD + TWICE),
    "FAKE-002-trace": a_row_that_cannot_be,
    "FAKE-002-data": lambda: openb_folder("/nowhere"),
    "FAKE-002-fault": a_fault_that_never_fired,
    "UP-001-port": a_port_that_is_taken,
    "FAKE-001-past": another_past,
    "FAKE-002-name": lambda: fleet(HEAD + ONE_NAME),
    "FAKE-002-cluster": lambda: read_configuration("nodes: [", "topology.yml"),
    "SERVER-001-kubelet": lambda: list_pod_resources(Path("/nowhere/kubelet.sock")),
}


@pytest.mark.parametrize("code", PROVOKED)
def test_the_message_is_the_golden_one(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A new scenario in the library must not change a message.
    monkeypatch.setattr("fake_gpu.scenario.load.library", lambda: ["demo", "openb", "thin_line"])
    with pytest.raises(LedgerError) as raised:
        PROVOKED[code]()
    error = raised.value
    golden = GOLDEN / f"{code}.txt"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        golden.write_text(f"{error.message()}\n", encoding="utf-8")
    assert code.startswith(error.code)
    assert f"{error.message()}\n" == golden.read_text(encoding="utf-8")
