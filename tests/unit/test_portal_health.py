"""The page about the health of GPUs: numbers calculated by hand, and access to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.portal_by_hand import OTHER, OWN, Portal, marts_of, portal_at, write

PAGE = "/provider/health?period=2026-10"


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Portal:
    folder: Path = tmp_path_factory.mktemp("portal")
    return portal_at(folder / "home")


def test_the_provider_sees_problems_tenants_and_proposed_credits(portal: Portal) -> None:
    """Two pods of one tenant at 2 USD each, and one of another: each had an XID in one hour."""
    text = portal.get(PAGE, "provider").text
    assert "the card has fallen off the bus" in text
    assert "4.00" in text[text.index("Proposed credits") :]
    assert OWN in text
    assert OTHER in text
    assert "affected" in text[text.index("Workloads by their top owner") :]


def test_the_api_has_the_rows_of_the_page(portal: Portal) -> None:
    """Every pod had one card for three hours at 2 USD, and an XID in the first of them."""

    def rows(name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = portal.get(f"/api/v1/fleet/{name}", "provider").json()["rows"]
        return found

    assert {
        (row["device"], row["problem"], row["observed"]) for row in rows("health/problems")
    } == {(f"GPU-{uid}", "xid", 79) for uid in "abn"}
    assert {(row["tenant"], row["credit"]) for row in rows("health/credits")} == {
        (OWN, "4.00"),
        (OTHER, "2.00"),
    }
    workload = next(row for row in rows("health/workloads") if row["workload_name"] == "train-b")
    assert {name: workload[name] for name in ("problem_hours", "device_hours", "idle_hours")} == {
        "problem_hours": 1,
        "device_hours": "3.00",
        "idle_hours": "1.00",
    }
    assert (workload["cost"], workload["idle_cost"]) == ("6.00", "2.00")


@pytest.mark.parametrize("who", [OWN, "programme"])
def test_other_callers_do_not_see_it(portal: Portal, who: str) -> None:
    assert portal.get(PAGE, who).status_code in (403, 404)


def test_the_page_of_the_provider_links_to_it(portal: Portal) -> None:
    text = portal.get("/provider?period=2026-10", "provider").text
    assert 'href="/provider/health?period=2026-10"' in text


def test_a_problem_of_a_node_without_pods_is_shown(tmp_path: Path) -> None:
    marts = marts_of()
    [*_, last] = marts["fct_gpu_health"]
    nobodys = {"tenant": "", "namespace": "", "pod_uid": "", "pod_name": ""}
    unhealthy = {"problem": "unhealthy_devices", "device_uuid": "", "observed": 48_360}
    marts["fct_gpu_health"].append(last | nobodys | unhealthy)
    portal = portal_at(tmp_path, marts)
    found = portal.get(PAGE, "provider")
    assert found.status_code == 200
    assert "48,360" in found.text

    marts["fct_gpu_health"] = [last | nobodys | unhealthy | {"is_fault_of_provider": False}]
    write(portal.home, marts, tenants=())
    assert "No credit is proposed" in portal.get(PAGE, "provider").text
    returned = portal.get("/provider/returned", "provider").text
    assert "No workload was stopped" in returned
    assert "Saved so far" not in returned
