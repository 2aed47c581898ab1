"""A tenant of the portal learns nothing of another one, whatever it requests.

Put here: fuzzed requests while snapshots are switched, and fleets that differ in another tenant.
Not here: single refusals (`unit/test_portal_pages`).

The responses to a tenant are compared, byte by byte, with those of a portal whose fleet is the same
without the other tenant: an equal response cannot depend on it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import count, cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from portal import api
from portal.sessions import COOKIE
from portal.site import PAGES, make_site
from portal.visits import RequestLimits
from tests.asgi import Client, RawRequest, RawResponse, respond
from tests.marts_in_memory import START
from tests.portal_by_hand import (
    HOSTS,
    INVOICE,
    NOW,
    OTHER,
    OWN,
    TWO_USD,
    Portal,
    fleet_rows,
    merged,
    pod_rows,
    portal_at,
    tenant_rows,
    write_snapshots_of,
    write_warehouse,
)
from warehouse.snapshot_reader import Snapshots

CANARY = "canary-7f3a"
NEIGHBOURS_COST = Decimal(7_770_000_000)
SECRETS = (CANARY, "7.77", "23.31", (INVOICE + OTHER.encode()).decode(), "INV-000002")
STATUSES = frozenset({200, 303, 304, 400, 401, 403, 404, 405, 414, 421})

PER_EXAMPLE = 5
EXAMPLES = 100 * int(os.environ.get("N", "10")) // PER_EXAMPLE
"""`make explore` sends 100,000 requests."""


def own_rows() -> dict[str, list[Any]]:
    return merged(
        fleet_rows(),
        tenant_rows(OWN, TWO_USD * 6),
        pod_rows(OWN, "a"),
        pod_rows(OWN, "b"),
    )


def with_neighbour(cost: Decimal = NEIGHBOURS_COST, pods: int = 2) -> dict[str, list[Any]]:
    """The neighbour has pods in the tenant's cluster and in one of its own, which has gaps."""
    parts = [pod_rows(OTHER, f"{CANARY}-{n}", cost=cost) for n in range(pods)]
    elsewhere = {
        name: [row | {"cluster_id": "c2"} if "cluster_id" in row else row for row in rows]
        for name, rows in pod_rows(OTHER, f"{CANARY}-west", cost=cost).items()
    }
    west = {
        "dim_clusters": [{"cluster_id": "c2", "cluster_name": f"west-{CANARY}"}],
        "fct_coverage": [
            {
                "cluster_id": "c2",
                "source": "thanos",
                "hour_started_at": START + timedelta(hours=hour),
                "outcome": "not_asked",
                "reason": f"{CANARY} hour {hour} of {pods}",
            }
            for hour in range(pods)
        ],
    }
    rows = merged(own_rows(), tenant_rows(OTHER, cost * 3), west, elsewhere, *parts)
    for budget in rows["fct_forecasts"]:
        if budget["tenant"] == OTHER:
            budget["forecast_method"] = CANARY
    return rows


def addresses(tenant: str) -> list[str]:
    """Every page and every table of the API, in each format, size and grouping."""
    names = {"tenant": tenant, "number": "INV-000001", "name": "INV-000001.pdf"}
    pages = [path.format(**names) for path in PAGES]
    tables = [f"{api.ROOT}{table.path.format(**names)}" for table in api.TABLES]
    of_tenant = f"{api.ROOT}/tenants/{tenant}"
    return [
        *pages,
        *(f"{page}?size=narrow" for page in pages if page.endswith(".svg")),
        f"/tenants/{tenant}/workload?kind=Job&name=train-a",
        f"/tenants/{tenant}?label=team",
        *tables,
        *(f"{table}?format=csv" for table in tables),
        *(f"{of_tenant}/usage?by={by}" for by in GROUPINGS),
        f"{of_tenant}/usage?by=hour&from=2026-10-01T00:30&to=2026-10-01T02:15",
        f"{of_tenant}/documents/INV-000001/INV-000001.pdf",
        f"{api.ROOT}/openapi.json",
    ]


GROUPINGS = ("cluster", "pod", "workload", "class", "profile", "day", "hour", "label:team")


def bearer(token: str) -> tuple[str, str]:
    return ("Authorization", f"Bearer {token}")


def unlimited(portal: Portal, like: Portal | None = None) -> Portal:
    """The portal with an allowance that refills at once, and without the limit on a statement's
    time, which a busy machine exceeds; its callers are those of `like`."""
    like = like or portal
    changed = dataclasses.replace(
        portal.settings,
        snapshots=Snapshots(portal.settings.snapshots.folder, statement_seconds=3600),
        limits=RequestLimits(count().__next__),
        authority=like.settings.authority,
        sessions=like.settings.sessions,
    )
    return Portal(portal.home, changed, Client(make_site(changed, HOSTS)), like.tokens)


async def responses(portal: Portal, requests: Sequence[RawRequest]) -> list[RawResponse]:
    """To requests that are sent at the same time."""
    return await asyncio.gather(*(respond(portal.client.app, one) for one in requests))


@pytest.mark.deep
def test_fleets_that_differ_in_another_tenant_give_the_same_bytes(tmp_path: Path) -> None:
    alone = unlimited(portal_at(tmp_path / "alone", own_rows(), tenants=(OWN,)))
    beside = portal_at(tmp_path / "beside", with_neighbour())
    other = portal_at(tmp_path / "other", with_neighbour(NEIGHBOURS_COST * 9, pods=3))
    paths = [*addresses(OWN), *addresses(OTHER)]
    host = ("Host", "fake")

    async def of(portal: Portal) -> list[RawResponse]:
        caller = bearer(alone.tokens[OWN])
        return [
            await respond(portal.client.app, RawRequest("GET", path, (host, caller)))
            for path in paths
        ]

    expected = asyncio.run(of(alone))
    of_tenant = [
        (path, one.status) for path, one in zip(paths, expected, strict=True) if OWN in path
    ]
    assert [path for path, status in of_tenant if status != 200] == []
    for portal in (beside, other):
        found = asyncio.run(of(unlimited(portal, alone)))
        assert [path for path, a, b in zip(paths, expected, found, strict=True) if a != b] == []


@dataclass
class TwoPortals:
    """The tenant alone, and beside a neighbour whose rows are switched all the time."""

    alone: Portal
    beside: Portal
    switching: threading.Thread
    due: threading.Event


@pytest.fixture(scope="module")
def portals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoPortals]:
    folder = tmp_path_factory.mktemp("fuzzed")
    alone = unlimited(portal_at(folder / "alone", own_rows(), tenants=(OWN,)))
    beside = unlimited(portal_at(folder / "beside", with_neighbour()), alone)
    warehouses = []
    for pods in (1, 2, 3):
        write_warehouse(beside.home, with_neighbour(NEIGHBOURS_COST, pods))
        warehouses.append(shutil.move(beside.home.warehouse_path, folder / f"{pods}.duckdb"))
    due, ended = threading.Event(), threading.Event()

    def switch() -> None:
        for warehouse in cycle(warehouses):
            due.wait()
            due.clear()
            if ended.is_set():
                return
            shutil.copy(warehouse, beside.home.warehouse_path)
            write_snapshots_of(beside.home)

    switching = threading.Thread(target=switch)
    switching.start()
    yield TwoPortals(alone, beside, switching, due)
    ended.set()
    due.set()
    switching.join()


# Names in other spellings, encodings and alphabets, as on the wire.
WRITTEN = st.sampled_from(
    [
        OWN,
        OTHER,
        OTHER.upper(),
        f"{OTHER}.",
        f"{OTHER}%00",
        f"{OTHER}%0a",
        f"{OTHER};{OWN}",
        f"{OWN},{OTHER}",
        f"{OWN}/../{OTHER}",
        f"{OWN}%2F..%2F{OTHER}",
        f"{OWN}%5c..%5c{OTHER}",
        f"..%2F{OTHER}",
        f"%2e%2e/{OTHER}",
        f"%c0%ae%c0%ae/{OTHER}",
        f"//{OTHER}",
        "%6eeighbour",
        "%256eeighbour",
        "%u006eeighbour",
        "neighbou%72/",
        "*",
        "%25",
        "",
    ]
)
LOOK_ALIKES = st.sampled_from(
    [
        "n\u0435ighbour",  # a Cyrillic letter
        "\uff4eeighbour",  # a full-width letter
        "neighb\u200bour",
        "neighbou\u0072\u0301",
        "ne\u0131ghbour",
        "\u202eruobhgien",
        "' or tenant <> '",
        "neighbour'--",
        f"train-{CANARY}-0",
        f"west-{CANARY}",
        "{{7*7}}",
    ]
)
SPELLINGS = st.sampled_from(
    [
        lambda text: quote(text, safe=""),
        lambda text: quote(text, safe="/:;,*'()&=?"),
        lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
        lambda text: quote(quote(text, safe=""), safe=""),
    ]
)
WORDS = st.one_of(
    WRITTEN,
    st.builds(
        lambda spell, text: spell(text),
        SPELLINGS,
        st.one_of(LOOK_ALIKES, st.text(st.characters(codec="utf-8"), max_size=20)),
    ),
)
VALID = {
    "period": ("2026-10",),
    "by": GROUPINGS,
    "label": ("team",),
    "from": ("2026-10-01T00", "2026-10-01"),
    "to": ("2026-10-01T02", "2026-10-01T03:00:01"),
    "hour": ("2026-10-01T01",),
    "at": ("2026-10-01T01:30",),
    "workload_kind": ("Job",),
    "workload_name": ("train-a", f"train-{CANARY}-0"),
    "kind": ("Job",),
    "name": ("train-b", f"train-{CANARY}-1"),
    "format": ("csv", "json"),
    "limit": ("1", "10000"),
    "offset": ("0", "1"),
    "size": ("narrow", "wide"),
    "cluster": ("east", f"west-{CANARY}"),
    "node": ("gpu-1",),
}
TABLES = {f"{api.ROOT}{table.path}": (*table.parameters, *api.PAGED) for table in api.TABLES}
TEMPLATES = {
    **dict.fromkeys(PAGES, ("period", "size", "hour", "label", "kind", "name")),
    **TABLES,
    f"{api.ROOT}/tenants/{{tenant}}/documents/{{number}}/{{name}}": (),
    "/static/{name}": (),
    "/login": (),
    "/healthz": (),
}
OF_TENANTS = tuple(template for template in TEMPLATES if "{tenant}" in template)


def known_parameters(template: str) -> st.SearchStrategy[list[str]]:
    """Parameters that the page may know, with values that it understands."""
    pairs = [f"{name}={value}" for name in TEMPLATES[template] for value in VALID[name]]
    return st.lists(st.sampled_from(pairs), max_size=2) if pairs else st.just([])


PARAMETERS = st.lists(
    st.one_of(
        st.builds("{}={}".format, st.sampled_from([*VALID]), WORDS),
        st.builds("{}={}".format, WORDS, WORDS),
    ),
    max_size=3,
)
NAMED = st.one_of(st.just(OWN), st.just(OTHER), WORDS)
FILES = st.one_of(
    st.sampled_from(["INV-000001.pdf", "INV-000002.pdf", f"..%2F{OTHER}%2FINV-000002.pdf"]), WORDS
)


def targets_of(template: str) -> st.SearchStrategy[str]:
    return st.builds(
        lambda name, number, file, parameters, mark: "?".join(
            [template.format(tenant=name, number=number, name=file)]
            + [mark.join(parameters)] * bool(parameters)
        ),
        NAMED,
        st.sampled_from(["INV-000001", "INV-000002"]),
        FILES,
        st.one_of(st.just([]), known_parameters(template), PARAMETERS),
        st.sampled_from(["&", "&", "&", ";", "&&"]),
    )


TARGETS = st.one_of(
    st.sampled_from(OF_TENANTS).flatmap(targets_of),
    st.sampled_from(OF_TENANTS).flatmap(targets_of),
    st.sampled_from([*TEMPLATES]).flatmap(targets_of),
    st.builds("/{}/{}".format, WORDS, WORDS),
)
METHODS = st.sampled_from(
    ["GET"] * 20 + ["HEAD", "POST", "PUT", "OPTIONS", "TRACE", "get", "QUERY"]
)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "X-Forwarded-User",
                "X-Forwarded-Access-Token",
                "X-Forwarded-Prefix",
                "X-Remote-User",
                "X-Forwarded-Host",
                "X-Original-URL",
                "X-Rewrite-URL",
                "X-HTTP-Method-Override",
                "X-Tenant",
                "Impersonate-User",
                "Forwarded",
                "Cookie",
                "If-None-Match",
                "Range",
                "Accept",
                "Accept-Encoding",
                "Referer",
            ]
        ),
        st.one_of(
            st.sampled_from([OTHER, f"/tenants/{OTHER}", f"{COOKIE}={OTHER}", "GET", "bytes=0-9"]),
            st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20),
        ),
    ),
    max_size=3,
)
CALLERS = ("own",) * 16 + (
    "own session",
    "nobody",
    "two tokens",
    "own number, foreign secret",
    "foreign number, own secret",
    "upper case",
    "foreign session forged",
    "own token, foreign session",
    "own token, foreign token passed",
    "as basic",
)


def credentials(portal: Portal, caller: str) -> list[tuple[str, str]]:
    """The headers of a caller that may see the tenant, or nothing; never of the neighbour."""
    own, foreign = portal.tokens[OWN], portal.tokens[OTHER]
    authority, sessions = portal.settings.authority, portal.settings.sessions

    def session(token: str) -> str:
        return f"{COOKIE}={sessions.begin(authority.session_subject(token), NOW)}"

    prefix, number, secret = own.split("_", 2)
    _, foreign_number, foreign_secret = foreign.split("_", 2)
    return {
        "own": [bearer(own)],
        "own session": [("Cookie", session(own))],
        "nobody": [],
        "two tokens": [bearer(own), bearer(foreign)],
        "own number, foreign secret": [bearer(f"{prefix}_{number}_{foreign_secret}")],
        "foreign number, own secret": [bearer(f"{prefix}_{foreign_number}_{secret}")],
        "upper case": [bearer(foreign.upper())],
        "foreign session forged": [("Cookie", session(foreign)[:-4] + "0000")],
        "own token, foreign session": [bearer(own), ("Cookie", session(foreign))],
        "own token, foreign token passed": [bearer(own), ("X-Forwarded-Access-Token", foreign)],
        "as basic": [("Authorization", f"Basic {foreign}")],
    }[caller]


REQUESTS = st.lists(
    st.tuples(METHODS, TARGETS, HEADERS, st.sampled_from(CALLERS)),
    min_size=PER_EXAMPLE,
    max_size=PER_EXAMPLE,
)


@pytest.mark.explore
@settings(max_examples=EXAMPLES, phases=[Phase.generate])
@given(REQUESTS, st.integers(0, 99))
def test_no_request_of_a_tenant_depends_on_another_one(
    portals: TwoPortals, drawn: list[tuple[str, str, list[tuple[str, str]], str]], chance: int
) -> None:
    """Now and then the neighbour and the provider send requests at the same time, and the snapshots
    of both are switched."""
    if chance == 99:
        portals.due.set()
    host = ("Host", "fake")
    requests = [
        RawRequest(method, target, [host, *credentials(portals.alone, caller), *headers])
        for method, target, headers, caller in drawn
    ]
    others = [
        RawRequest("GET", f"/tenants/{OTHER}", [host, bearer(portals.alone.tokens[OTHER])]),
        RawRequest("GET", "/provider", [host, bearer(portals.alone.tokens["provider"])]),
    ] * (chance > 90)

    async def both() -> tuple[list[RawResponse], list[RawResponse]]:
        expected = [await respond(portals.alone.client.app, one) for one in requests]
        return expected, await responses(portals.beside, [*requests, *others])

    expected, found = asyncio.run(both())
    for request, alone, beside in zip(requests, expected, found, strict=False):
        assert alone.status in STATUSES, (request, alone)
        assert beside == alone, request
        whole = f"{beside.headers}{beside.body!r}"
        wire = repr(request) + unquote(request.target)  # an error quotes the name of a parameter
        assert [one for one in SECRETS if one in whole and one not in wire] == [], request
    assert portals.switching.is_alive()
    for other in found[PER_EXAMPLE:]:  # else the bytes that are searched prove nothing
        assert CANARY.encode() in other.body or other.status == 503, other
