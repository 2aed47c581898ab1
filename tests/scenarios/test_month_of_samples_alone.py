"""Last month on the first day: an old Thanos, and no collector.

The month closes with its uncertainty printed, and the truth of every pod with a sample is within
it. Pods without a sample are counted here from the truth; they are a documented limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from billing.invoice import read_lines
from domain.billing_period import BillingPeriod
from domain.findings import CheckResult
from fake_gpu.clock import driven, epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve
from orchestration import steps
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome
from tests.scenarios import against_truth as truth

PERIOD = BillingPeriod("2026-10")
INTERVAL_SECONDS = 300 + 30
"""The resolution of this cluster's samples: the interval of collection and of scrapes."""


@dataclass(frozen=True)
class Closed:
    fleet: Fleet
    opened: OpenHome
    check_result: CheckResult


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Closed:
    fleet = build_fleet(load_scenario("samples_only"))
    clock = driven(epoch(fleet.ended_at) + timedelta(hours=3))
    with serve(fleet, clock) as running:
        folder = tmp_path_factory.mktemp("samples") / "home"
        home = make_home(folder, fleet, running.thanos_url, running.kubernetes_urls)
        table = home.decisions / "clusters.csv"
        table.write_text(table.read_text().replace(",both,", ",samples,"))
        opened = OpenHome(home, clock)
        steps.pull(opened, PERIOD.interval)
        clock.advance_to(PERIOD.ended_at + timedelta(days=3))
    steps.refresh(opened, PERIOD)
    check_result = steps.check_period(opened, PERIOD)
    steps.close(opened, PERIOD, dry_run=False)
    return Closed(fleet, opened, check_result)


def counted(closed: Closed) -> dict[tuple[str, str], tuple[int, int]]:
    """(cluster, pod): seconds and their uncertainty."""
    statement = """
        select cluster_id, pod_uid, sum(running_seconds), sum(uncertainty_seconds)
        from marts.fct_pod_hours group by all
    """
    rows = truth.ask(closed.opened.home, statement)
    return {(cluster, uid): (int(running), int(about)) for cluster, uid, running, about in rows}


def really(closed: Closed) -> dict[tuple[str, str], int]:
    """(cluster, pod): the seconds that it ran; each pod requests one kind of device."""
    found = truth.true_allocations(closed.fleet)
    assert len({(cluster, uid) for cluster, uid, _ in found}) == len(found)
    return {(cluster, uid): running for (cluster, uid, _), (running, _) in found.items()}


def test_the_truth_is_within_the_uncertainty_of_every_sampled_pod(
    closed: Closed,
) -> None:
    found, ran = counted(closed), really(closed)
    assert found.keys() <= ran.keys()
    outside = {
        key: (seconds, about, ran[key])
        for key, (seconds, about) in found.items()
        if abs(seconds - ran[key]) > about
    }
    assert outside == {}
    assert any(about for _, about in found.values())
    assert all(about <= 2 * INTERVAL_SECONDS for _, about in found.values())


def test_only_pods_shorter_than_an_interval_were_seen_by_no_sample(closed: Closed) -> None:
    found, ran = counted(closed), really(closed)
    unseen = {key: running for key, running in ran.items() if key not in found and running}
    assert all(running < INTERVAL_SECONDS for running in unseen.values())
    assert len(unseen) * 20 < len(found)


def test_the_month_closes_and_prints_its_uncertainty(closed: Closed) -> None:
    assert closed.check_result.billable
    record = closed.opened.record
    documents = [record.sealed(issued.sha256) for issued in record.invoices(PERIOD.name)]
    assert {document["tenant"] for document in documents} == {"chat", "physics"}
    about = sum(pod["uncertain_device_seconds"] for d in documents for pod in d["pods"])
    assert about > 0
    for document in documents:
        assert read_lines(document)
        own = sum(pod["uncertain_device_seconds"] for pod in document["pods"])
        folder = closed.opened.home.documents / PERIOD.name / "tenants" / document["tenant"]
        text = (folder / f"{document['number']}.txt").read_text()
        assert f"uncertainty of starts and ends: {own} device seconds" in text


def test_documents_name_devices_as_pods_request_them(closed: Closed) -> None:
    """A metric has `nvidia_com_gpu`; the pod requested `nvidia.com/gpu`."""
    asked = {(uid, resource) for _, uid, resource in truth.true_allocations(closed.fleet)}
    record = closed.opened.record
    for issued in record.invoices(PERIOD.name):
        document = record.sealed(issued.sha256)
        billed = {(pod["pod_uid"], pod["resource"]) for pod in document["pods"]}
        assert billed
        assert billed <= asked
