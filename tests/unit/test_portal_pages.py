"""The portal's pages and API: numbers calculated by hand, access, and refusals.

Put here: single requests, without a port.
Not here: snapshots (`test_snapshots`), a browser (`servers/test_portal_in_a_browser`), fuzzed
requests (`properties/test_properties_portal`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import html
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jsonschema
import pytest

from orchestration.cli.demo import _show_portal
from orchestration.demo.closed_month import DemoResult
from portal import api
from portal.charts import STATUS_COLOURS
from portal.refusals import TooManyRequests
from portal.site import PAGES, make_site
from portal.tokens import FILE, TokenFile
from portal.visits import BURST_LIMIT, RequestLimits
from tests.asgi import Client
from tests.marts_in_memory import START
from tests.portal_by_hand import (
    HOSTILE,
    HOSTS,
    HOUR,
    INVOICE,
    OTHER,
    OWN,
    TWO_USD,
    Portal,
    about,
    marts_of,
    portal_at,
    write,
    write_snapshots_of,
)
from warehouse.about import AboutPeriod
from warehouse.connection import connected
from warehouse.reports.opened_facts import Facts
from warehouse.snapshots import Correction, write_snapshots

LOGIN = {"Origin": "http://fake", "Content-Type": "application/x-www-form-urlencoded"}
SUMMARY = f"/api/v1/tenants/{OWN}/summary"


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Portal:
    return portal_at(tmp_path_factory.mktemp("portal") / "home")


def page_paths() -> list[str]:
    names = {"tenant": OWN, "number": "INV-000001", "name": "INV-000001.pdf"}
    pages = [path.format(**names) for path in PAGES]
    return [*pages, *(f"{api.ROOT}{table.path.format(**names)}" for table in api.TABLES)]


def test_the_summary_equals_a_hand_calculation(portal: Portal) -> None:
    """2 pods × 3 hours × 2 USD; the third hour is incomplete; 741 hours are left at 4 USD."""
    [row] = portal.get(SUMMARY).json()["rows"]
    assert {
        name: row[name]
        for name in ("cost", "settled", "in_flight", "outage_credits", "committed_at_most")
    } == {
        "cost": "12.00",
        "settled": "8.00",
        "in_flight": "4.00",
        "outage_credits": "0.00",
        "committed_at_most": "2964.00",
    }
    assert (row["burn_rate_per_hour"], row["last_day_per_hour"]) == ("4.00", "0.33")
    assert (row["forecast_low"], row["forecast"], row["forecast_high"]) == (
        "600.00",
        "1200.00",
        "2400.00",
    )
    assert (row["budget"], row["budget_used_pct"]) == ("120.00", "10.0")
    # 4 of 6 device-hours at 60 %; one device-hour of the second pod is idle.
    assert (row["device_hours"], row["gpu_hours"]) == ("6.00", "6.00")
    assert (row["utilisation_pct"], row["idle_cost"]) == ("40.0", "2.00")
    assert (row["amounts"], row["incomplete_hours"]) == ("estimated", 2)


def test_now_is_the_last_complete_hour_of_the_clusters_of_the_tenant(tmp_path: Path) -> None:
    """The third hour of c1 is not complete: it has only half of its cost. In c2, where the
    neighbour is, it is complete."""
    marts = marts_of()
    for row in marts["fct_pod_hours"]:
        if row["hour_started_at"] == START + 2 * HOUR:
            row["cost_nanos"] = TWO_USD / 2
    for mart in ("fct_pod_hours", "fct_gpu_use", "fct_quotas"):
        for row in marts[mart]:
            row["cluster_id"] = "c2" if row["tenant"] == OTHER else "c1"
    east = [row for row in marts["fct_coverage"] if row["cluster_id"] == "c1"]
    marts["fct_coverage"] += [row | {"cluster_id": "c2", "outcome": "ok"} for row in east]
    marts["dim_clusters"].append({"cluster_id": "c2", "cluster_name": "west"})
    portal = portal_at(tmp_path / "one", marts)
    expected = {OWN: ("01:00", "4.00", "0.33"), OTHER: ("02:00", "1.00", "0.21")}
    for tenant, (hour, rate, of_day) in expected.items():
        [row] = portal.get(f"/api/v1/tenants/{tenant}/summary", tenant).json()["rows"]
        assert row["last_complete_hour_started_at"] == f"2026-10-01T{hour}:00Z"
        assert (row["burn_rate_per_hour"], row["last_day_per_hour"]) == (rate, of_day)
        text = portal.get(f"/tenants/{tenant}", tenant).text
        assert f"Now is the hour from 01 Oct 2026 {hour} UTC, the last complete one." in text
        assert f"hour from 01 Oct {hour} UTC; mean of the 24 hours until its end" in text
    fleet = portal.get("/provider", "provider").text
    assert "Now is the hour from 01 Oct 2026 01:00 UTC, the last complete one." in fleet
    rows = portal.get("/api/v1/fleet/tenants", "provider").json()["rows"]
    assert {row["tenant"]: row["burn_rate_per_hour"] for row in rows} == {
        OWN: "4.00",
        OTHER: "1.00",
    }
    [capacity] = portal.get("/api/v1/fleet/capacity", "provider").json()["rows"]
    assert capacity["hour_started_at"] == "2026-10-01T01:00:00Z"

    # A waived hour is decided: 2 pods × 1 USD in it, and 4 + 4 + 2 USD in its day.
    with connected(portal.home.warehouse_path) as connection:
        connection.execute(
            "update quality.coverage_statuses set state = 'waived' where state <> 'complete'"
        )
    write_snapshots_of(portal.home)
    [row] = portal.get(SUMMARY).json()["rows"]
    assert row["last_complete_hour_started_at"] == "2026-10-01T02:00:00Z"
    assert (row["burn_rate_per_hour"], row["last_day_per_hour"]) == ("2.00", "0.42")
    assert (row["settled"], row["in_flight"], row["incomplete_hours"]) == ("10.00", "0.00", 0)

    for row in marts["fct_coverage"]:
        row["outcome"] = "degraded"
    text = portal_at(tmp_path / "two", marts).get(f"/tenants/{OWN}").text
    assert "Now is the hour from 01 Oct 2026 02:00 UTC, the last counted one." in text
    assert "2.00 USD/h" in text


def test_a_closed_month_has_no_amount_in_flight(tmp_path: Path) -> None:
    portal = portal_at(tmp_path, amounts="final")
    [row] = portal.get(SUMMARY).json()["rows"]
    assert (row["settled"], row["in_flight"], row["cost"]) == ("12.00", "0.00", "12.00")
    assert (row["committed_at_most"], row["forecast"], row["forecast_high"]) == (
        "0.00",
        "12.00",
        "12.00",
    )
    tenants = portal.get("/api/v1/fleet/tenants", "provider").json()["rows"]
    assert [one["forecast"] for one in tenants] == ["12.00", "6.00"]
    pages = [portal.get(f"/tenants/{OWN}"), portal.get(f"/tenants/{OWN}/charts/cost.svg")]
    assert [page for page in pages if "Forecast, " in page.text] == []


def test_the_page_has_the_numbers_of_the_api(portal: Portal) -> None:
    text = portal.get(f"/tenants/{OWN}").text
    for shown in ("12.00 USD", "8.00 USD", "4.00 USD", "2,964.00 USD", "1,200.00 USD", "10.0 %"):
        assert shown in text, shown
    assert "1800 of 3600 s were watched" in text
    assert "03:00 UTC" in text  # the end of the counted time
    assert "INV-000001.pdf" in text
    assert OTHER not in text


def test_rows_of_each_grouping_add_up_to_the_cost(portal: Portal) -> None:
    for by in ("pod", "workload", "class", "profile", "day", "hour", "day,class", "label:team"):
        rows = portal.get(f"/api/v1/tenants/{OWN}/usage?by={by}").json()["rows"]
        assert sum(float(row["rounded_cost"]) for row in rows) == 12.0, by
    window = "from=2026-10-01T01&to=2026-10-01T02"
    [row] = portal.get(f"/api/v1/tenants/{OWN}/usage?by=class&{window}").json()["rows"]
    assert (row["cost"], row["device_hours"], row["pods"]) == ("4", "2.00", 2)
    # A quarter of an hour and the first second after it: 2 pods × 901 s × 2 USD / 3600.
    window = "from=2026-10-01T01:45&to=2026-10-01T02:00:01"
    [row] = portal.get(f"/api/v1/tenants/{OWN}/usage?by=class&{window}").json()["rows"]
    assert (row["cost"], row["device_hours"]) == ("1.00111111", "0.50")


def test_a_workload_is_idle_since_the_hour_after_its_last_use(portal: Portal) -> None:
    rows = portal.get(f"/api/v1/tenants/{OWN}/pods").json()["rows"]
    assert {row["pod_uid"]: row["idle_since"] for row in rows} == {
        "a": None,
        "b": "2026-10-01T02:00:00Z",
    }


def test_pods_have_their_gpu_class_and_shapes(tmp_path: Path) -> None:
    """Pod `a` has one whole card; pod `b` has MIG instances of two shapes."""
    marts = marts_of()
    for row in [row for row in marts["fct_pod_hours"] if row["pod_uid"] == "b"]:
        row |= {"resource": "nvidia.com/mig-1g.10gb", "mig_profile": "1g.10gb"}
        second = {"resource": "nvidia.com/mig-2g.20gb", "mig_profile": "2g.20gb"}
        marts["fct_pod_hours"].append(row | second | {"cost_nanos": 0})
    portal = portal_at(tmp_path, marts)
    rows = portal.get(f"/api/v1/tenants/{OWN}/pods").json()["rows"]
    assert [(row["pod_uid"], row["gpu_class"], row["mig_profile"]) for row in rows] == [
        ("a", "H100-80GB", "whole"),
        ("b", "H100-80GB", "1g.10gb, 2g.20gb"),
    ]
    for name, shape in (("a", "whole card"), ("b", "1g.10gb, 2g.20gb")):
        text = portal.get(f"/tenants/{OWN}/workload?kind=Job&name=train-{name}").text
        cells = re.findall(r'<td class="pf-v6-c-table__td short">([^<]*)</td>', text)
        assert cells[:2] == ["H100-80GB", shape]


def test_the_provider_sees_steps_capacity_and_every_tenant(portal: Portal) -> None:
    text = portal.get("/provider", "provider").text
    for shown in (OWN, OTHER, "gpu-ledger gaps 2026-10", "GAP-001", "H100-80GB", "8.00", "5.00"):
        assert shown in text, shown
    rows = portal.get("/api/v1/fleet/tenants", "provider").json()["rows"]
    assert [(row["tenant"], row["cost"]) for row in rows] == [(OWN, "12.00"), (OTHER, "6.00")]
    steps = portal.get("/api/v1/fleet/steps", "provider").json()["rows"]
    assert [step["status"] for step in steps] == ["done", "blocked", "blocked", "waiting", "done"]
    assert [step["detail"] for step in steps[1:3]] == [
        "blocked by 1 gap",
        "1 finding, 1 blocking the close",
    ]
    [finding] = portal.get("/api/v1/fleet/findings", "provider").json()["rows"]
    assert finding["where"] == "cluster east, 02:00 to 03:00"
    assert finding["cluster_id"] == "c1"
    assert '<td class="pf-v6-c-table__td">cluster east, 02:00 to 03:00</td>' in text


def test_differences_between_the_sources_are_rows_of_the_provider(portal: Portal) -> None:
    """One hour of pod `b` is in the journal, but in no sample."""
    [row] = portal.get("/api/v1/fleet/differences", "provider").json()["rows"]
    assert (row["tenant"], row["method"], row["reason"], row["pods"]) == (
        OWN,
        "disputed",
        "absent",
        1,
    )
    assert (row["lifecycle_hours"], row["samples_hours"], row["cost"]) == ("1.00", "0.00", "2.00")


def test_the_inventory_names_each_card_and_its_holder(portal: Portal) -> None:
    rows = portal.get("/api/v1/fleet/inventory", "programme").json()["rows"]
    assert {row["device_uuid"]: row["held_by"] for row in rows} == {
        "GPU-a": f"{OWN}/train-a",
        "GPU-b": f"{OWN}/train-b",
        "GPU-n": f"{OTHER}/train-n",
        "GPU-free": "",
    }
    rows = portal.get("/api/v1/fleet/inventory?at=2026-10-01T03", "programme").json()["rows"]
    assert rows == []  # the last sample of each is at three
    [capacity] = portal.get("/api/v1/fleet/inventory/capacity", "programme").json()["rows"]
    assert (capacity["device_capacity"], capacity["device_allocated"]) == (8, 3)
    [cards] = portal.get("/api/v1/fleet/inventory/cards", "programme").json()["rows"]
    assert (cards["installed"], cards["running"], cards["idle"]) == ("8.00", "3.00", "5.00")


def test_the_programme_owner_sees_an_hour_and_its_pods(portal: Portal) -> None:
    text = portal.get("/programme?hour=2026-10-01T01", "programme").text
    for shown in ("gpu-1", f"{OWN}/train-a", "known by devices", ">devices</td>", "01:00 UTC"):
        assert shown in text, shown
    month = portal.get("/api/v1/fleet/hours?format=csv", "programme")
    assert month.text.splitlines()[1].startswith("east,2026-10-01T01:00:00Z,measured,gpu-1,3,3")
    again = portal.get("/api/v1/fleet/hours?format=csv", "programme")
    assert (again.content, again.headers["etag"]) == (month.content, month.headers["etag"])


def test_foreign_and_missing_pages_have_the_same_404(portal: Portal) -> None:
    """The responses are compared byte by byte, including headers."""
    for form in ("/tenants/{}", "/tenants/{}/charts/cost.svg", "/tenants/{}/workload"):
        found = [
            portal.get(path)
            for path in (form.format(OTHER), form.format("nobody"), "/no/such/page", "/provider")
        ]
        assert {one.status_code for one in found} == {404}
        assert len({(one.content, tuple(sorted(one.headers.items()))) for one in found}) == 1
    for form in ("/api/v1/tenants/{}/summary", "/api/v1/tenants/{}/documents/INV-000002/x.pdf"):
        found = [portal.get(form.format(name)) for name in (OTHER, "nobody", OWN.upper())]
        found += [portal.get("/api/v1/nothing"), portal.get("/api/v1/fleet/tenants")]
        assert {one.status_code for one in found} == {404}
        assert len({(one.content, tuple(sorted(one.headers.items()))) for one in found}) == 1


def test_a_document_of_another_tenant_is_not_found_under_the_own_name(portal: Portal) -> None:
    own = portal.get(f"/tenants/{OWN}/documents/INV-000001/INV-000001.pdf")
    assert (own.status_code, own.content) == (200, INVOICE + OWN.encode())
    assert portal.get(f"/tenants/{OWN}/documents/INV-000002/INV-000002.pdf").status_code == 404
    assert portal.get(f"/tenants/{OWN}/documents/INV-000001/..%2F{FILE}").status_code == 404


def test_a_file_that_differs_from_its_issue_is_not_sent(tmp_path: Path) -> None:
    portal = portal_at(tmp_path)
    path = portal.home.documents / "2026-10" / "tenants" / OWN / "INV-000001.pdf"
    path.write_bytes(b"another")
    found = portal.get(f"/tenants/{OWN}/documents/INV-000001/INV-000001.pdf")
    assert (found.status_code, b"another" in found.content) == (503, False)


def test_a_tenant_sees_no_fleet_and_a_programme_owner_no_tenant(
    portal: Portal,
) -> None:
    for table in api.TABLES:
        path = f"{api.ROOT}{table.path.format(tenant=OWN)}"
        seen = {name for name in portal.tokens if portal.get(path, name).status_code == 200}
        assert (
            seen
            == {
                api.TENANT: {OWN, "provider"},
                api.FLEET: {"provider"},
                api.PROGRAMME: {"programme", "provider"},
            }[table.scope]
        ), path


@pytest.mark.parametrize(
    "query",
    [
        "period=2026-10&period=2026-10",
        "colour=red",
        "period=October",
        "by=colour",
        "by=pod&from=2026-10-01T01",
        "by=pod&from=2026-10-01T01:30:05.5&to=2026-10-01T02",
        "by=pod&from=2026-10-02&to=2026-10-01",
        "format=xml",
        "limit=1000000",
        "limit=-1",
        f"period={'9' * 600}",
    ],
)
def test_an_invalid_parameter_is_refused(portal: Portal, query: str) -> None:
    found = portal.get(f"/api/v1/tenants/{OWN}/usage?{query}")
    assert (found.status_code, list(found.json())) == (400, ["code", "error", "remedy"])


@pytest.mark.parametrize(
    ("path", "caller", "headers", "status", "code"),
    [
        (f"/api/v1/tenants/{OTHER}/summary", OWN, {}, 404, "PORTAL-003"),
        (f"{SUMMARY}?period=2026-09", OWN, {}, 400, "PORTAL-004"),
        (f"/api/v1/tenants/{OWN}/usage?by=colour", OWN, {}, 400, "PORTAL-004"),
        (f"/api/v1/tenants/{OWN}/usage?from=2025-01-01&to=2025-01-02", OWN, {}, 400, "FACTS-001"),
        (SUMMARY, "", {}, 401, "PORTAL-005"),
        (SUMMARY, OWN, {"Authorization": "Bearer glp_x"}, 401, "PORTAL-005"),
        (SUMMARY, OWN, {"Origin": "http://evil.example"}, 403, "PORTAL-004"),
        (SUMMARY, OWN, {"Host": "evil.example"}, 421, "PORTAL-004"),
        (f"{SUMMARY}?{'a' * 5000}", OWN, {}, 414, "PORTAL-004"),
    ],
)
def test_each_refusal_of_the_api_has_its_code_and_a_remedy(
    portal: Portal, path: str, caller: str, headers: dict[str, str], status: int, code: str
) -> None:
    found = portal.get(path, caller, headers=headers)
    assert (found.status_code, found.json()["code"]) == (status, code)
    assert found.json()["remedy"].endswith(".")
    assert found.headers["content-type"] == "application/json"


def test_without_a_snapshot_every_page_is_503_with_a_reason(tmp_path: Path) -> None:
    portal = portal_at(tmp_path)
    for path in portal.home.snapshots.iterdir():
        path.unlink()
    for path in (f"/tenants/{OWN}", SUMMARY, "/tenants/nobody"):
        found = portal.get(path)
        assert found.status_code == 503
        assert "PORTAL-001" in found.text
        assert str(tmp_path) not in found.text
    assert portal.get("/healthz", "").status_code == 503


def test_a_login_starts_a_session_that_ends_with_its_token(tmp_path: Path) -> None:
    portal = portal_at(tmp_path)
    assert portal.get(f"/tenants/{OWN}", "").headers["location"] == "/login"
    begun = portal.client.post("/login", data={"token": portal.tokens[OWN]}, headers=LOGIN)
    assert (begun.status_code, begun.headers["location"]) == (303, "/")
    assert "HttpOnly" in begun.headers["set-cookie"]
    assert "SameSite=strict" in begun.headers["set-cookie"]
    assert portal.tokens[OWN] not in begun.headers["set-cookie"]
    cookie = {"Cookie": begun.headers["set-cookie"].partition(";")[0]}
    assert portal.get("/", "", headers=cookie).headers["location"] == f"/tenants/{OWN}"
    assert portal.get(f"/tenants/{OWN}", "", headers=cookie).status_code == 200
    assert portal.get(f"/tenants/{OTHER}", "", headers=cookie).status_code == 404
    forged = {"Cookie": cookie["Cookie"][:-1] + ("0" if cookie["Cookie"][-1] != "0" else "1")}
    assert portal.get(f"/tenants/{OWN}", "", headers=forged).status_code == 303
    tokens = portal.home.path / FILE
    kept = [line for line in tokens.read_text().splitlines() if f",{OWN}," not in line]
    tokens.write_text("\n".join(kept) + "\n")
    assert portal.get(f"/tenants/{OWN}", "", headers=cookie).status_code == 303


def test_a_link_with_a_token_starts_a_session_unless_from_another_site(
    portal: Portal,
) -> None:
    link = f"/login?token={portal.tokens[OWN]}"
    begun = portal.client.get(link)
    assert (begun.status_code, begun.headers["location"]) == (303, "/")
    cookie = {"Cookie": begun.headers["set-cookie"].partition(";")[0]}
    assert portal.get(f"/tenants/{OWN}", "", headers=cookie).status_code == 200
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    foreign = portal.client.get(link, headers=followed | {"Sec-Fetch-Dest": "document"})
    assert (foreign.status_code, "set-cookie" in foreign.headers) == (200, False)
    assert portal.client.get("/login?token=glp_x").status_code == 401


def test_the_links_of_the_demo_open_a_page_of_each_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    portal = portal_at(tmp_path)
    opened = SimpleNamespace(home=portal.home, clock=portal.settings.clock)
    _show_portal(cast("DemoResult", SimpleNamespace(opened=opened)), [{"tenant": OWN}])
    links = re.findall(r"http://127.0.0.1:\d+(/login\S+)", capsys.readouterr().out)
    places = []
    for link in links:
        begun = portal.client.get(link)
        cookie = {"Cookie": begun.headers["set-cookie"].partition(";")[0]}
        front = portal.get(begun.headers["location"], "", headers=cookie)
        places.append(front.headers.get("location", "/"))
        page = places[-1] if places[-1] != "/" else "/provider"
        assert portal.get(page, "", headers=cookie).status_code == 200
    assert places == [f"/tenants/{OWN}", "/", "/programme"]


@pytest.mark.parametrize(
    "body",
    ["token=glp_000000000000_" + "A" * 43, "token=", "token=a&token=b", "other=1", "x" * 9000],
)
def test_a_login_without_a_valid_token_starts_no_session(portal: Portal, body: str) -> None:
    found = portal.client.post("/login", content=body.encode(), headers=LOGIN)
    assert found.status_code in (400, 401)
    assert "set-cookie" not in found.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({"X-Forwarded-User": OTHER, "X-Forwarded-Host": "evil.example"}, 200),
    ],
)
def test_requests_of_other_sites_are_refused(
    portal: Portal, headers: dict[str, str], status: int
) -> None:
    assert portal.get(f"/tenants/{OWN}", headers=headers).status_code == status
    forwarded = portal.get(f"/tenants/{OTHER}", headers={"X-Forwarded-User": OTHER})
    assert forwarded.status_code == 404


def test_a_link_of_another_site_opens_a_page(portal: Portal) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    headers = link | {"Sec-Fetch-Dest": "document"}
    assert portal.get(f"/tenants/{OWN}", headers=headers).status_code == 200
    begun = portal.client.post("/login", data={"token": "x"}, headers=LOGIN | headers)
    assert begun.status_code == 403


def test_only_reading_and_login_methods_are_allowed(portal: Portal) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        found = portal.client.request(
            method, SUMMARY, headers={"Authorization": f"Bearer {portal.tokens[OWN]}"}
        )
        assert found.status_code == 405
    assert portal.get("/" + "a" * 5000).status_code == 414


def test_responses_have_strict_headers_and_pages_no_inline_style(
    portal: Portal,
) -> None:
    for path in [*page_paths(), "/login", "/nowhere"]:
        found = portal.get(path, "provider")
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert found.headers["x-content-type-options"] == "nosniff"
        assert (
            re.search(r"<script|<style|\sstyle=|\son\w+=|https?://(?!www\.w3)", found.text) is None
        )


def test_names_of_pods_are_text_on_pages_and_in_spreadsheets(tmp_path: Path) -> None:
    portal = portal_at(tmp_path, marts_of(own_pod=HOSTILE))
    text = portal.get(f"/tenants/{OWN}/workload?kind=Job&name=train-a").text
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text
    sheet = portal_at(tmp_path / "sheet", marts_of(own_pod="=HYPERLINK(1)"))
    assert ",'=HYPERLINK(1)," in sheet.get(f"/api/v1/tenants/{OWN}/pods?format=csv").text


def test_each_hour_of_a_cluster_has_the_worse_status_of_its_sources(tmp_path: Path) -> None:
    """Two hours complete, the third degraded in one source; the others are not due."""
    marts = marts_of()
    for row in marts["fct_coverage"]:
        row["outcome"] = "ok" if row["source"] == "kubernetes" else row["outcome"]
    portal = portal_at(tmp_path, marts)
    chart = portal.get("/provider/charts/hours.svg?cluster=east", "provider")
    cells = re.findall(r'y="([\d.]+)" width="16.\d" height="([\d.]+)" fill="(#\w+)"', chart.text)
    top = 48  # below one line of the legend
    hour = (300 - top - 34) / 24
    assert [(float(y), float(height), colour) for y, height, colour in cells] == [
        (top, pytest.approx(2 * hour, abs=0.1), STATUS_COLOURS["complete"]),
        (
            pytest.approx(top + 2 * hour, abs=0.1),
            pytest.approx(hour, abs=0.1),
            STATUS_COLOURS["degraded"],
        ),
    ]
    assert portal.get("/provider/charts/hours.svg?cluster=west", "provider").status_code == 404
    assert portal.get("/provider/charts/hours.svg?cluster=east").status_code == 404
    assert "cluster=east" in portal.get("/provider", "provider").text


def test_charts_are_images_with_the_classes_of_the_table(portal: Portal) -> None:
    chart = portal.get(f"/tenants/{OWN}/charts/gpu-hours.svg")
    assert chart.headers["content-type"] == "image/svg+xml"
    assert "H100-80GB" in chart.text
    cost = portal.get(f"/tenants/{OWN}/charts/cost.svg").text
    # The scale ends at 2,500, the next round number above the highest forecast, 2,400.
    assert re.findall(r">([\d,]+)</text>", cost)[:6] == [
        "0",
        "500",
        "1,000",
        "1,500",
        "2,000",
        "2,500",
    ]


def test_responses_match_the_openapi_document(portal: Portal) -> None:
    document = portal.get("/api/v1/openapi.json").json()
    download = "/api/v1/tenants/{tenant}/documents/{number}/{name}"
    names = {"tenant": OWN, "number": "INV-000001", "name": "INV-000001.pdf"}
    found = portal.get(download.format(**names))
    [kind] = document["paths"].pop(download)["get"]["responses"]["200"]["content"]
    assert (found.status_code, found.headers["content-type"]) == (200, kind)
    assert len(document["paths"]) == len(api.TABLES)
    for path, operations in document["paths"].items():
        found = portal.get(path.format(tenant=OWN), "provider")
        content = operations["get"]["responses"]["200"]["content"]
        schema: dict[str, Any] = content["application/json"]["schema"]
        whole = schema | {"components": document["components"]}
        jsonschema.Draft202012Validator(whole).validate(found.json())
        assert found.json()["rows"] or "corrections" in path, path
        refused = portal.get(path.format(tenant=OWN) + "?no=1", "provider").json()
        error = document["components"]["schemas"]["Error"]
        jsonschema.Draft202012Validator(error).validate(refused)


def test_every_refusal_is_in_the_openapi_document(portal: Portal) -> None:
    document = portal.get("/api/v1/openapi.json").json()
    error = jsonschema.Draft202012Validator(document["components"]["schemas"]["Error"])
    token = {"Authorization": f"Bearer {portal.tokens[OWN]}"}
    download = f"{api.ROOT}{api.DOCUMENT}"
    cases = [
        ("GET", token | {"Origin": "http://evil.example"}, "", 403),
        ("PUT", token, "", 405),
        ("GET", token, "a" * 5000, 414),
        ("GET", token | {"Host": "evil.example"}, "", 421),
        ("GET", {}, "", 401),
        ("GET", token, "no=1", 400),
    ]
    for path in (f"{api.ROOT}/tenants/{{tenant}}/summary", download):
        known = document["paths"][path]["get"]["responses"]
        target = path.format(tenant=OWN, number="INV-000001", name="INV-000001.pdf")
        for method, headers, query, status in cases:
            found = portal.client.request(method, f"{target}?{query}", headers=headers)
            assert found.status_code == status
            assert str(status) in known
            error.validate(found.json())


def test_the_line_of_the_cost_chart_has_the_amounts_of_its_table(tmp_path: Path) -> None:
    """Two pods cost 2 USD each on days 1, 2 and 4; the scale is read from the grid's labels."""
    marts = marts_of()
    for row in marts["fct_pod_hours"]:
        hours = (row["hour_started_at"] - START) // HOUR
        row["hour_started_at"] += timedelta(days=(0, 1, 3)[hours])
    portal = portal_at(tmp_path, marts)
    until = START + timedelta(days=4)
    four_days = dataclasses.replace(about("final"), counted_until=until, data_complete_to=until)
    write_snapshots(portal.home, [four_days], [], [])
    rows = portal.get(f"/api/v1/tenants/{OWN}/days").json()["rows"]
    assert [(row["usage_day"][8:], row["cumulative_cost"]) for row in rows] == [
        ("01", "4.00"),
        ("02", "8.00"),
        ("04", "12.00"),
    ]
    chart = portal.get(f"/tenants/{OWN}/charts/cost.svg").text
    labels = re.findall(r'y="([\d.]+)"[^>]*text-anchor="end"[^>]*>([\d,]+)</text>', chart)
    (zero, nothing), *_, (top, most) = [(float(y), float(text)) for y, text in labels]
    assert (nothing, most) == (0, 200)  # the budget is 120
    line = re.findall(r'<polyline points="([^"]+)"', chart)[0]
    points = [tuple(map(float, one.split(","))) for one in line.split()]
    steps = [(x - points[0][0]) / (points[1][0] - points[0][0]) for x, _ in points]
    assert steps == pytest.approx([0, 1, 2, 3, 4], abs=0.1)  # the end of each day
    amounts = [(y - points[0][1]) / (top - zero) * most for _, y in points]
    assert amounts == pytest.approx([0, 4, 8, 8, 12], abs=0.1)


def test_corrections_are_rows_of_the_provider(tmp_path: Path) -> None:
    portal = portal_at(tmp_path)
    late = Correction("2026-09", OTHER, "USD", -1_250_000_000, "late samples")
    write_snapshots(portal.home, [about()], [], [late])
    [row] = portal.get("/api/v1/fleet/corrections", "provider").json()["rows"]
    assert row == {
        "corrects_period": "2026-09",
        "tenant": OTHER,
        "currency": "USD",
        "cost": "-1.25",
        "reason": "late samples",
    }
    card = portal.get("/provider", "provider").text.partition('id="corrections"')[2]
    assert re.findall(r"<td[^>]*>([^<]+)</td>", card)[:4] == [
        "2026-09",
        OTHER,
        "-1.25 USD",
        "late samples",
    ]
    assert portal.get("/api/v1/fleet/corrections").status_code == 404


def test_an_earlier_month_has_its_own_numbers_under_its_address(tmp_path: Path) -> None:
    """In September, one pod ran one hour for 2 USD; the month is closed."""
    marts, days = marts_of(), timedelta(days=30)
    for mart, name in (("fct_pod_hours", "hour_started_at"), ("fct_gpu_use", "hour_started_at")):
        [first, *_] = [row for row in marts[mart] if row["pod_uid"] == "a"]
        earlier = {"billing_period": "2026-09", name: first[name] - days}
        if mart == "fct_pod_hours":
            earlier["segment_started_at"] = first["segment_started_at"] - days
        marts[mart].append(first | earlier)
    for row in list(marts["fct_coverage"]) + list(marts["dim_clusters"]):
        place = "fct_coverage" if "source" in row else "dim_clusters"
        moved = {"hour_started_at": START - days} if place == "fct_coverage" else {}
        if place == "dim_clusters" or row["hour_started_at"] == START:
            marts[place].append(row | {"billing_period": "2026-09"} | moved)
    portal = portal_at(tmp_path, marts)
    september = AboutPeriod("2026-09", "final", START, START - days + HOUR, "cd" * 32, 0, 0)
    write_snapshots(portal.home, [september, about()], [], [])
    found = {}
    for period in ("2026-09", "2026-10"):
        [row] = portal.get(f"{SUMMARY}?period={period}").json()["rows"]
        found[period] = (row["cost"], row["device_hours"], row["amounts"], row["settled"])
        text = portal.get(f"/tenants/{OWN}?period={period}").text
        assert f"Numbers of {period} are" in text
        assert '<option value="2026-09">2026-09 (final)</option>' in text or period == "2026-09"
        days_of = portal.get(f"/api/v1/tenants/{OWN}/days?period={period}").json()["rows"]
        assert [one["usage_day"] for one in days_of] == [f"{period}-01"]
    assert found == {
        "2026-09": ("2.00", "1.00", "final", "2.00"),
        "2026-10": ("12.00", "6.00", "estimated", "8.00"),
    }
    assert [
        one["billing_period"] for one in portal.get(f"/api/v1/tenants/{OWN}/periods").json()["rows"]
    ] == ["2026-09", "2026-10"]
    assert portal.get(SUMMARY).json()["rows"][0]["billing_period"] == "2026-10"


def test_csv_and_json_have_the_same_rows(portal: Portal) -> None:
    for table in api.TABLES:
        path = f"{api.ROOT}{table.path.format(tenant=OWN)}"
        rows = portal.get(path, "provider").json()
        lines = portal.get(f"{path}?format=csv", "provider").text.splitlines()
        assert len(lines) == 1 + rows["total"]
        assert lines[0].split(",") == (
            list(rows["rows"][0]) if rows["rows"] else lines[0].split(",")
        )


def test_estimates_in_focus_name_the_resources_as_issued_files_do(portal: Portal) -> None:
    """Two pods of one card for three hours at 2 USD each: a row of 3 hours and 6 USD for each."""
    rows = portal.get(f"/api/v1/tenants/{OWN}/focus").json()["rows"]
    names = ("RegionId", "RegionName", "SubAccountId", "SubAccountName", "ResourceId", "BilledCost")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("c1", "east", f"c1/{OWN}", f"east/{OWN}", f"c1/{OWN}/Job/train-{pod}", "6") for pod in "ab"
    ]
    assert {(row["ConsumedQuantity"], row["InvoiceId"], row["ListUnitPrice"]) for row in rows} == {
        ("3", "", "")
    }


PAGES_WITH_TABLES = {
    f"/tenants/{OWN}": OWN,
    f"/tenants/{OWN}/workload?kind=Job&name=train-a": OWN,
    f"/tenants/{OWN}/returned": OWN,
    "/provider": "provider",
    "/provider/health": "provider",
    "/provider/map": "provider",
    "/provider/returned": "provider",
    "/programme?hour=2026-10-01T01": "programme",
}


@pytest.mark.parametrize("path", PAGES_WITH_TABLES)
def test_each_card_with_a_table_has_its_rows_as_csv_and_json(portal: Portal, path: str) -> None:
    caller = PAGES_WITH_TABLES[path]
    cards = portal.get(path, caller).text.split("<section ")[1:]
    with_tables = [card for card in cards if "<table" in card]
    assert with_tables
    for card in with_tables:
        links = [html.unescape(one) for one in re.findall(r'href="(/api/v1/[^"]+)"', card)]
        answers = {link: portal.get(link, caller) for link in links}
        assert {one.status_code for one in answers.values()} == {200}, card[:80]
        kinds = {one.headers["content-type"].partition(";")[0] for one in answers.values()}
        assert kinds == {"text/csv", "application/json"}, card[:80]


def test_each_page_states_how_complete_its_month_is(tmp_path: Path) -> None:
    """One hour is degraded in both sources; one of a cluster without the tenant is missing."""
    marts = marts_of()
    hour = marts["fct_coverage"][0] | {"cluster_id": "c2", "outcome": "missing", "reason": "404"}
    marts["fct_coverage"].append(hour)
    marts["dim_clusters"].append({"cluster_id": "c2", "cluster_name": "west"})
    portal = portal_at(tmp_path / "open", marts)
    closed = portal_at(tmp_path / "closed", marts, amounts="final")
    for path, caller in PAGES_WITH_TABLES.items():
        text = portal.get(path, caller).text
        for shown in (
            "Numbers of 2026-10 are estimated until the month is closed.",
            "Hours until 01 Oct 2026 03:00 UTC are counted;",
            "every hour until 01 Oct 2026 02:00 UTC is complete.",
        ):
            assert shown in text, (path, shown)
        links = re.findall(r'<a href="([^"]*)">(\d) incomplete hours of one source', text)
        [(link, count)] = links
        assert count == ("2" if caller == OWN else "3"), path
        page, _, card = link.partition("#")
        listed = portal.get(page or path, caller).text.partition(f'id="{card}"')[2]
        assert "1800 of 3600 s were watched" in listed, path
        assert ("west" in listed) == (caller != OWN), path
        assert "Numbers of 2026-10 are final." in closed.get(path, caller).text, path


def test_a_month_without_gaps_is_stated_as_complete(tmp_path: Path) -> None:
    marts = marts_of()
    for row in marts["fct_coverage"]:
        row["outcome"] = "ok"
    portal = portal_at(tmp_path, marts)
    for path, caller in PAGES_WITH_TABLES.items():
        assert "No hour is incomplete." in portal.get(path, caller).text, path


@pytest.mark.deep
def test_the_map_of_a_thousand_nodes_is_paged_and_small(tmp_path: Path) -> None:
    """Each node has eight cards of 1/7 parts, and two MIG instances of which one is held."""
    marts = marts_of()
    [share], [capacity] = marts["fct_node_share_hours"], marts["fct_node_class_hours"]
    [device, *_] = marts["dim_devices"]
    names = [f"node-{number:04}" for number in range(1000)]
    marts["fct_node_share_hours"] = [share | {"node_name": name} for name in names]
    marts["fct_node_class_hours"] = [capacity | {"node_name": name} for name in names]
    marts["dim_devices"] = [
        device
        | {"node_name": name, "device_uuid": uuid, "gpu_index": "0", "instance_id": instance}
        | {"mig_profile": "3g.40gb"}
        for name in names
        for uuid, instance in ((f"MIG-{name}", "1"), (f"MIG-{name}-b", "2"))
    ]
    for row in [*marts["fct_pod_hours"], *marts["fct_gpu_use"]]:
        if row["pod_uid"] == "a":
            row |= {"node_name": "node-0500"}
        if row["pod_uid"] == "a" and "device_uuid" in row:
            row |= {"device_uuid": "MIG-node-0500", "gpu_index": "0", "instance_id": "1"}
    portal = portal_at(tmp_path, marts)

    def shown(path: str) -> str:
        found = portal.get(path, "provider")
        assert found.status_code == 200
        return found.text

    def nodes(text: str) -> list[str]:
        assert len(text) < 100_000
        return re.findall(r"node-\d{4}(?=</td>)", text)

    first = shown("/provider/map")
    [following] = re.findall(r'href="([^"]+)">Next nodes', first)
    last = shown("/provider/map?offset=950")
    assert nodes(first) == names[:50]
    assert nodes(shown(html.unescape(following))) == names[50:100]
    assert (nodes(last), "Next nodes" in last) == (names[950:], False)
    one = shown("/provider/map?node=0500")
    assert "0/1 3g.40gb" in one
    assert f"{OWN}/train-a" in one
    chart = shown("/provider/charts/nodes.svg?cluster=east&hour=2026-10-01T01")
    assert "Cards of 1000 nodes of east" in chart
    assert len(chart) < 150_000
    every = portal.get("/api/v1/fleet/inventory?format=csv", "provider").text.splitlines()
    assert len(every) == 1 + 2000


def test_rows_are_paged_and_unchanged_responses_are_304(portal: Portal) -> None:
    path = f"/api/v1/tenants/{OWN}/usage?by=hour"
    first = portal.get(f"{path}&limit=2").json()
    rest = portal.get(f"{path}&limit=2&offset={first['next_offset']}").json()
    whole = portal.get(path)
    assert (first["total"], rest["next_offset"]) == (3, None)
    assert first["rows"] + rest["rows"] == whole.json()["rows"]
    again = portal.get(path, headers={"If-None-Match": whole.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_tag_is_of_the_rows_that_were_read_also_during_a_switch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    portal = portal_at(tmp_path)
    opened = portal.settings.snapshots.opened

    @contextlib.contextmanager
    def opened_and_switched(*arguments: Any) -> Iterator[Facts]:
        with opened(*arguments) as facts:
            write(portal.home, marts_of(own_pod="renamed"))
            yield facts

    before = portal.get(SUMMARY)
    with monkeypatch.context() as patched:
        patched.setattr(portal.settings.snapshots, "opened", opened_and_switched)
        during = portal.get(SUMMARY)
    assert during.headers["etag"] == before.headers["etag"]
    assert portal.get(SUMMARY).headers["etag"] != before.headers["etag"]


def test_the_access_log_names_callers_and_no_token(
    portal: Portal, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "gpu_ledger.portal"):
        portal.get(f"/tenants/{OWN}?period=2026-10")
        assert portal.get("/x%0d%0aforged", OTHER).status_code == 400
        portal.get("/x yé", OTHER)
    assert [re.sub(r"token \w+", "token ID", record.getMessage()) for record in caplog.records] == [
        f"token ID GET '/tenants/{OWN}' 200",
        r"token ID GET '/x y\xe9' 404",
    ]
    assert not any(token.split("_", 2)[2] in caplog.text for token in portal.tokens.values())


def test_requests_of_a_caller_are_limited() -> None:
    seconds = [0.0]
    limits = RequestLimits(lambda: seconds[0])

    def sent(count: int) -> int:
        done = 0
        for _ in range(count):
            with contextlib.suppress(TooManyRequests), limits.of("a"):
                done += 1
        return done

    assert sent(BURST_LIMIT + 5) == BURST_LIMIT
    seconds[0] = 0.5
    assert sent(100) == 10
    with limits.of("b"):
        pass


def test_a_caller_has_at_most_eight_requests_at_a_time() -> None:
    limits = RequestLimits(lambda: 0.0, wait_seconds=0)
    with contextlib.ExitStack() as running:
        for _ in range(8):
            running.enter_context(limits.of("a"))
        with pytest.raises(TooManyRequests), limits.of("a"):
            pass
        with limits.of("b"):
            pass
    with limits.of("a"):
        pass


def test_eight_more_requests_of_a_caller_wait_for_its_first() -> None:
    limits = RequestLimits(lambda: 0.0, wait_seconds=60)

    def one() -> str:
        try:
            with limits.of("a"):
                return "done"
        except TooManyRequests:
            return "refused"

    with ThreadPoolExecutor(9) as pool, contextlib.ExitStack() as running:
        for _ in range(8):
            running.enter_context(limits.of("a"))
        later = [pool.submit(one) for _ in range(9)]
        refused = next(as_completed(later, timeout=30))
        running.close()
        assert refused.result() == "refused"
        results = sorted(each.result(timeout=30) for each in later)
    assert results == ["done"] * 8 + ["refused"]


def test_a_request_over_the_limit_is_429_with_the_time_to_wait(portal: Portal) -> None:
    """The ninth request of a tenant; the provider's requests are counted on their own."""
    caller = TokenFile(portal.home.path / FILE).caller(portal.tokens[OWN])
    assert caller is not None
    with contextlib.ExitStack() as running:
        for _ in range(8):
            running.enter_context(portal.settings.limits.of(caller.name))
        refused = [portal.get(SUMMARY), portal.get(f"/tenants/{OWN}")]
        assert portal.get(SUMMARY, "provider").status_code == 200
    assert [(one.status_code, one.headers["retry-after"]) for one in refused] == [(429, "1")] * 2
    assert refused[0].json()["code"] == "PORTAL-006"
    assert portal.get(SUMMARY).status_code == 200


def test_each_open_step_links_to_its_job_of_dagster(tmp_path: Path) -> None:
    """All five steps are open: nothing is complete, checked, closed or issued."""
    marts = marts_of()
    for row in marts["fct_coverage"]:
        row["outcome"] = "missing"
    portal = portal_at(tmp_path, marts, tenants=())
    settings = dataclasses.replace(portal.settings, dagster_url="http://dagster.example:3000")
    shown = Portal(portal.home, settings, Client(make_site(settings, HOSTS)), portal.tokens)
    links = re.findall(r'href="(http[^"]+)"', shown.get("/provider", "provider").text)
    jobs = ("pull_due_hours", "pull_hours", "check_period", "close_period", "close_period")
    place = "http://dagster.example:3000/locations/gpu-ledger/jobs"
    assert links == [f"{place}/{job}" for job in jobs]
    assert "Open in Dagster" not in portal.get("/provider", "provider").text


def test_budgets_and_the_state_of_each_step_are_on_page_and_api(portal: Portal) -> None:
    page = portal.get(f"/tenants/{OWN}").text
    assert "actual 50 %" in page
    assert "20.00 USD" in page
    assert OTHER not in page
    [row] = portal.get(f"/api/v1/tenants/{OWN}/budgets").json()["rows"]
    assert (row["amount"], row["cost"], row["used_pct"]) == ("20.00", "12.00", "60.0")
    assert (row["state"], row["reached_at"]) == ("reached", "2026-10-01T03:00:00Z")
    assert row["delivered_at"] is None
    rows = portal.get("/api/v1/fleet/budgets", "provider").json()["rows"]
    assert [one["tenant"] for one in rows] == [OTHER, OWN]


def test_stops_and_their_savings_are_visible_to_their_tenant(tmp_path: Path) -> None:
    """2 devices of 3.60 USD an hour: one hour until the restore, four until now."""
    portal = portal_at(tmp_path)
    own = portal.get(f"/tenants/{OWN}/returned").text
    assert ("model-vision" in own, "3.60 USD" in own, OTHER in own) == (True, True, False)
    [row] = portal.get(f"/api/v1/tenants/{OTHER}/returned", caller=OTHER).json()["rows"]
    assert (row["hours"], row["saved"], row["restored_at"]) == ("4.00", "14.40", None)
    assert portal.get(f"/tenants/{OTHER}/returned").status_code == 404
    everything = portal.get("/provider/returned", caller="provider").text
    assert "18.00 USD" in everything
    assert portal.get("/provider/returned").status_code == 404


def test_a_login_proxy_passes_the_token_of_a_person(tmp_path: Path) -> None:
    """Only if a login proxy is configured, and only without an Authorization header."""
    portal = portal_at(tmp_path, authority=TokenFile(tmp_path / FILE))
    passed = {"X-Forwarded-Access-Token": portal.tokens[OWN]}
    assert portal.get(f"/tenants/{OWN}", caller="", headers=passed).status_code == 200
    assert portal.get(f"/tenants/{OTHER}", caller="", headers=passed).status_code == 404
    both = passed | {"Authorization": "Bearer nothing"}
    assert portal.get(f"/tenants/{OWN}", caller="", headers=both).status_code == 401
    with_login = portal_at(tmp_path / "login")
    passed = {"X-Forwarded-Access-Token": with_login.tokens[OWN]}
    assert with_login.get(f"/tenants/{OWN}", caller="", headers=passed).status_code == 303
