"""Documents of the fake API equal those of a real kubelet, scheduler and API server.

Their fields are those of objects of a real kube-apiserver 1.34 with a real scheduler.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import (
    Container,
    Fault,
    NodeState,
    OwnerRef,
    PhaseChange,
    PodClaim,
    PodLifetime,
    Run,
    SimulatedCluster,
    WorkloadLifetime,
)
from fake_gpu.kubernetes.forms import Document, byte_quantity, quantity
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.kubernetes.pace import stops
from tests.small_fleets import CLUSTER_ID, HOUR, MIDNIGHT, node, pod, quiet_cluster


def history_of(*pods: PodLifetime, faults: tuple[Fault, ...] = ()) -> ObjectHistory:
    return ObjectHistory(replace(quiet_cluster(), pods=pods), faults, FaultLedger())


def changes_of_pod(life: PodLifetime) -> list[tuple[int, str, Document]]:
    """(seconds after midnight, verb, document) of every change of one pod."""
    changes = [c for c in history_of(life).changes if c.kind == "Pod"]
    return [(c.at - MIDNIGHT, c.verb, c.object) for c in changes]


def two_containers(**parts: object) -> PodLifetime:
    """A pod with an init container, a sidecar and a main container that restarts once."""
    life = pod("multi", created=0, scheduled=5, started=30, ended=200, gone=300, on=node("node-b"))
    containers = (
        Container("prep", "init", {"nvidia.com/gpu": 2}, (_run(10, 20, 0),)),
        Container("side", "sidecar", {"nvidia.com/gpu": 1}, (_run(21, 201, 0),)),
        Container("main", "main", {"nvidia.com/gpu": 1}, (_run(30, 90, 1), _run(110, 200, 0))),
    )
    return replace(life, containers=containers, finished_at=MIDNIGHT + 201, **parts)


def _run(started: int, ended: int, exit_code: int) -> Run:
    return Run(MIDNIGHT + started, MIDNIGHT + ended, exit_code)


# --- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (8, "8"), (40, "40"), (999, "999"), (1000, "1k"), (1500, "1500"), (2_000_000, "2M")],
)
def test_a_quantity_has_the_format_of_the_api_server(count: int, text: str) -> None:
    assert quantity(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (512, "512"), (1536, "1536"), (2048, "2Ki"), (512 * 2**30, "512Gi")],
)
def test_bytes_have_the_format_of_the_api_server(count: int, text: str) -> None:
    assert byte_quantity(count) == text


# --- a life --------------------------------------------------------------------------------------


def test_a_pod_has_the_states_that_a_real_api_server_shows() -> None:
    life = pod("a", created=900, scheduled=905, started=920, ended=1520, gone=1600,
               on=node("node-b"))  # fmt: skip
    steps = changes_of_pod(life)
    assert [(at, verb, d["status"]["phase"]) for at, verb, d in steps] == [
        (900, "ADDED", "Pending"),
        (900, "MODIFIED", "Pending"),
        (905, "MODIFIED", "Pending"),
        (906, "MODIFIED", "Pending"),
        (920, "MODIFIED", "Running"),
        (1520, "MODIFIED", "Succeeded"),
        (1600, "DELETED", "Succeeded"),
    ]
    bare = steps[0][2]
    assert bare["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert "nodeName" not in bare["spec"]


def test_an_unschedulable_pod_has_a_condition_and_no_node() -> None:
    waiting = changes_of_pod(pod("a", created=0, cards=()))[-1][2]
    (condition,) = waiting["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "Unschedulable",
    )
    assert "nodeName" not in waiting["spec"]
    assert "containerStatuses" not in waiting["status"]


def test_a_running_pod_has_the_conditions_of_a_real_one() -> None:
    life = pod("a", created=0, scheduled=5, started=20, on=node("node-b"))
    running = changes_of_pod(life)[-1][2]
    conditions = {c["type"]: c for c in running["status"]["conditions"]}
    assert {k: v["status"] for k, v in conditions.items()} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }
    assert conditions["PodScheduled"]["lastTransitionTime"] == "2026-10-01T00:00:05Z"
    assert conditions["Ready"]["lastTransitionTime"] == "2026-10-01T00:00:20Z"
    (status,) = running["status"]["containerStatuses"]
    assert status["state"] == {"running": {"startedAt": "2026-10-01T00:00:20Z"}}
    assert running["status"]["startTime"] == "2026-10-01T00:00:06Z"


def test_an_ended_pod_is_completed_and_not_ready_and_keeps_its_requests() -> None:
    life = pod("a", created=0, scheduled=5, started=20, ended=50, on=node("node-b"))
    ended = changes_of_pod(life)[-1][2]
    terminated = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    del terminated["containerID"]
    assert terminated == {
        "exitCode": 0,
        "finishedAt": "2026-10-01T00:00:50Z",
        "reason": "Completed",
        "startedAt": "2026-10-01T00:00:20Z",
    }
    ready = next(c for c in ended["status"]["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")
    assert ended["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "1"}


def test_init_containers_run_before_sidecars_and_main_containers() -> None:
    states = {}
    for at, _, document in changes_of_pod(two_containers()):
        statuses = document["status"].get("initContainerStatuses", []) + document["status"].get(
            "containerStatuses", []
        )
        states[at] = {s["name"]: next(iter(s["state"])) for s in statuses}
    assert states[6] == {"prep": "waiting", "side": "waiting", "main": "waiting"}
    assert states[10] == {"prep": "running", "side": "waiting", "main": "waiting"}
    assert states[21] == {"prep": "terminated", "side": "running", "main": "waiting"}
    assert states[30] == {"prep": "terminated", "side": "running", "main": "running"}
    assert states[90] == {"prep": "terminated", "side": "running", "main": "waiting"}
    assert states[110] == {"prep": "terminated", "side": "running", "main": "running"}
    assert states[201] == {"prep": "terminated", "side": "terminated", "main": "terminated"}


def test_a_restart_is_counted_and_keeps_the_previous_run() -> None:
    steps = {at: d["status"] for at, _, d in changes_of_pod(two_containers())}
    waiting = steps[90]["containerStatuses"][0]
    assert waiting["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert (waiting["restartCount"], waiting["ready"]) == (0, False)
    again = steps[110]["containerStatuses"][0]
    assert again["restartCount"] == 1
    assert again["lastState"]["terminated"]["finishedAt"] == "2026-10-01T00:01:30Z"
    assert again["containerID"] != waiting["containerID"]


def test_a_sidecar_is_an_init_container_that_restarts_always() -> None:
    spec = changes_of_pod(two_containers())[0][2]["spec"]
    assert [(c["name"], c.get("restartPolicy")) for c in spec["initContainers"]] == [
        ("prep", None),
        ("side", "Always"),
    ]


def test_a_deletion_is_announced_with_a_deadline_in_the_future() -> None:
    life = pod("a", created=0, scheduled=5, started=20, ended=75, gone=76, on=node("node-b"))
    life = replace(life, deletion_requested_at=MIDNIGHT + 60)
    leaving = {at: d["metadata"] for at, _, d in changes_of_pod(life)}
    assert "deletionTimestamp" not in leaving[20]
    assert leaving[60]["deletionTimestamp"] == "2026-10-01T00:01:30Z"
    assert leaving[60]["deletionGracePeriodSeconds"] == 30


def test_an_evicted_pod_failed_with_containers_that_seem_to_run() -> None:
    life = pod("a", created=0, scheduled=5, started=20, ended=75, on=node("node-b"), exit_code=137)
    phases = (*life.phases[:-1], PhaseChange(MIDNIGHT + 75, "Failed", "Evicted"))
    evicted = changes_of_pod(replace(life, phases=phases, end_reported=False))[-1][2]["status"]
    assert (evicted["phase"], evicted["reason"]) == ("Failed", "Evicted")
    assert "running" in evicted["containerStatuses"][0]["state"]


def test_claims_are_named_in_the_spec_and_resolved_in_the_status() -> None:
    life = pod("a", created=0, scheduled=5, started=20, on=node("node-b"))
    claimed = changes_of_pod(
        replace(life, claims=(PodClaim("gpu", "a-gpu-x7", "uid", "one-gpu"),))
    )[-1][2]
    assert claimed["spec"]["resourceClaims"] == [
        {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
    ]
    assert claimed["status"]["resourceClaimStatuses"] == [
        {"name": "gpu", "resourceClaimName": "a-gpu-x7"}
    ]


def test_a_claim_of_an_extended_resource_is_only_in_the_status() -> None:
    life = pod("a", created=0, scheduled=5, started=20, on=node("node-b"))
    claim = PodClaim("", "a-extended", "uid", extended_resource=True)
    claimed = changes_of_pod(replace(life, claims=(claim,)))[-1][2]
    assert "resourceClaims" not in claimed["spec"]
    status = claimed["status"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == "a-extended"


# --- nodes and order -----------------------------------------------------------------------------


def changing_node() -> SimulatedCluster:
    """A node that is cordoned at 100, silent from 200 to 500, and offers fewer devices then."""
    one = node("node-a")
    first = one.states[0]

    def state(from_at: int, until_at: int | None, **parts: object) -> NodeState:
        until = None if until_at is None else MIDNIGHT + until_at
        return replace(first, from_at=MIDNIGHT + from_at, until_at=until, **parts)

    states = (
        state(-HOUR, 100),
        state(100, 200, unschedulable=True),
        state(200, 500, ready="Unknown", not_ready_reason="NodeStatusUnknown"),
        state(500, None, allocatable={"nvidia.com/gpu": 1}),
    )
    return replace(quiet_cluster(), nodes=(replace(one, states=states),), pods=())


def test_a_node_shows_roles_taints_and_its_last_heartbeat() -> None:
    shown = {
        c.at - MIDNIGHT: c.object
        for c in ObjectHistory(changing_node()).changes
        if c.kind == "Node"
    }
    assert shown[100]["spec"]["unschedulable"] is True
    assert shown[100]["metadata"]["labels"]["node-role.kubernetes.io/worker"] == ""
    ready = {
        at: next(c for c in d["status"]["conditions"] if c["type"] == "Ready")
        for at, d in shown.items()
    }
    assert [(ready[at]["status"], ready[at]["lastTransitionTime"][11:]) for at in (100, 200, 500)] \
        == [("True", "23:00:00Z"), ("Unknown", "00:03:20Z"), ("True", "00:08:20Z")]  # fmt: skip
    assert {t["key"] for t in shown[200]["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}
    assert shown[500]["status"]["capacity"]["nvidia.com/gpu"] == "2"
    assert shown[500]["status"]["allocatable"]["nvidia.com/gpu"] == "1"


def test_a_name_is_freed_before_it_is_used_in_the_same_second() -> None:
    """A StatefulSet's pod is deleted and created again: the old pod's last event comes first."""
    old = pod("db-0", created=0, scheduled=5, started=20, ended=60, gone=60, on=node("node-b"))
    new = replace(pod("db-0", created=60, scheduled=61, on=node("node-b")), uid="new")
    at_sixty = [
        (c.uid, c.verb)
        for c in history_of(new, old).changes
        if c.kind == "Pod" and c.at == MIDNIGHT + 60
    ]
    assert at_sixty[:3] == [(old.uid, "MODIFIED"), (old.uid, "DELETED"), ("new", "ADDED")]


def test_a_pod_deleted_at_its_creation_is_added_first() -> None:
    brief = pod("brief", created=10, gone=10, cards=())
    verbs = [verb for _, verb, _ in changes_of_pod(brief)]
    assert verbs[0] == "ADDED"
    assert verbs[-1] == "DELETED"


def test_versions_grow_with_every_change_and_every_second() -> None:
    history = ObjectHistory(quiet_cluster())
    numbers = [c.resource_version for c in history.changes]
    assert all(a < b for a, b in pairwise(numbers))
    quiet = [history.resource_version_at(MIDNIGHT + 2000 + s) for s in range(5)]
    assert [b - a for a, b in pairwise(quiet)] == [1, 1, 1, 1]
    for change in history.changes:
        assert change.resource_version <= history.resource_version_at(change.at)
        assert change.resource_version > history.resource_version_at(change.at - 1)


def test_versions_of_objects_cover_their_lifetimes_without_a_gap() -> None:
    history = ObjectHistory(quiet_cluster())
    short = [v for v in history.versions("Pod") if v.change.name == "short"]
    assert short[0].from_at == MIDNIGHT + 900
    assert short[-1].until_at == MIDNIGHT + 1600
    assert all(a.until_at == b.from_at for a, b in pairwise(short))
    at_noon = history.objects_at("Pod", MIDNIGHT + 12 * HOUR)
    assert [p["metadata"]["name"] for p in at_noon] == ["train-5d9c-abcde", "waits"]


# --- faults of a kubelet's status -----------------------------------------------------------------


def test_a_kubelet_rewrites_starts_only_during_its_fault() -> None:
    lives = [
        pod(name, created=0, scheduled=5, started=20, ended=end, on=node("node-b"))
        for name, end in (("a-1", 100), ("a-2", 5000), ("c-1", 100))
    ]
    fault = Fault("f", "start_rewritten", "", MIDNIGHT, MIDNIGHT + HOUR, 1, {"pod": "a-"})
    starts = {}
    for document in history_of(*lives, faults=(fault,)).objects_at("Pod", MIDNIGHT + 6000):
        terminated = document["status"]["containerStatuses"][0]["state"]["terminated"]
        starts[document["metadata"]["name"]] = terminated["startedAt"][11:]
    assert starts == {"a-1": "00:01:40Z", "a-2": "00:00:20Z", "c-1": "00:00:20Z"}


# --- driving -------------------------------------------------------------------------------------


def test_a_driven_clock_stops_at_a_deletion_without_a_known_end() -> None:
    on = node("node-b")
    told_itself = pod("a", created=100, scheduled=105, started=120, ended=1520, gone=1600, on=on)
    vanished = replace(pod("b", created=200, scheduled=205, started=220, gone=2222, on=on), uid="b")
    history = history_of(told_itself, vanished)
    found = stops(history, MIDNIGHT, MIDNIGHT + HOUR, every_seconds=1800)
    assert [at - MIDNIGHT for at in found] == [1800, 2222, 3599, 3600]


def test_a_driven_clock_stops_while_the_owner_of_a_pod_exists() -> None:
    short = pod("a", created=100, scheduled=105, started=120, ended=150, gone=160, on=node("n"))
    job = WorkloadLifetime(
        CLUSTER_ID, "team-a", "batch/v1", "Job", "a", "job-uid", MIDNIGHT + 90, MIDNIGHT + 170
    )
    owned = replace(short, owners=(OwnerRef("batch/v1", "Job", "a", "job-uid"),))
    cluster = replace(quiet_cluster(), pods=(owned,), workloads=(job,))
    history = ObjectHistory(cluster, (), FaultLedger())
    found = stops(history, MIDNIGHT, MIDNIGHT + HOUR)
    assert [at - MIDNIGHT for at in found] == [169, 3599, 3600]


def test_a_driven_clock_stops_at_every_edge_of_a_fault() -> None:
    fault = Fault("f", "watch_dropped", "", MIDNIGHT + 1000, MIDNIGHT + 1300, 1)
    found = stops(history_of(), MIDNIGHT, MIDNIGHT + HOUR, (fault,), every_seconds=HOUR)
    assert [at - MIDNIGHT for at in found] == [999, 1000, 1300, 3600]
