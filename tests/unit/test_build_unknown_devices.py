"""Both sources agree on devices of vendors without a product decision, and the close is blocked.

Put here: such devices from the evidence of both sources to the findings.
Not here: which names are devices (`test_devices_of_both_sources`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from domain.clock import StoppedClock
from quality.run import check_period
from tests.decisions_by_hand import decided
from tests.evidence_by_hand import HOUR, PERIOD, Cluster, Node, Pod, clusters_table, write
from warehouse.build import build_period
from warehouse.connection import connected
from warehouse.home import Home

OFFERED = {"huawei.com/Ascend910": 8, "furiosa.ai/rngd": 2, "rdma/hca": 8}
PODS = [
    Pod("ascend", 100, 5000, requests={"huawei.com/Ascend910": 4}),
    Pod("rngd", 1000, 3000, requests={"furiosa.ai/rngd": 2}, namespace="team-b"),
    Pod("no-device", 100, 5000, requests={"rdma/hca": 1}),
]


def test_unknown_devices_agree_and_block_the_close(
    tmp_path: Path,
) -> None:
    """Four for 4900 s, and two for 2000 s; a network card is not counted."""
    home = Home.create(tmp_path / "home")
    nodes = [Node(labels={-HOUR: {"kubernetes.io/hostname": "n1"}}, capacity={-HOUR: OFFERED})]
    cluster = Cluster("c1", PODS, nodes)
    write(home, cluster)
    decisions = decided(clusters_table(cluster))
    build_period(home, PERIOD, decisions, closed_periods=frozenset())
    with connected(home.warehouse_path, read_only=True) as connection:
        counted = connection.execute(
            "select pod_name, list(distinct method), sum(running_seconds)::bigint "
            "from marts.fct_pod_hours where state = 'running' group by all order by all"
        ).fetchall()
    assert counted == [("ascend", ["confirmed"], 4900), ("rngd", ["confirmed"], 2000)]
    check_result = check_period(
        home, PERIOD, decisions, StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))
    )
    found = {finding.where: finding for finding in check_result.findings if finding.blocks}
    unknown = {where: one.seen for where, one in found.items() if one.name == "device_unknown"}
    assert unknown == {
        "cluster c1, huawei.com/Ascend910 (unknown class unknown profile)":
            "19600 device seconds of 1 tenants (team-a)",
        "cluster c1, furiosa.ai/rngd (unknown class unknown profile)":
            "4000 device seconds of 1 tenants (team-b)",
    }  # fmt: skip
    assert not check_result.billable
