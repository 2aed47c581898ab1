"""No request of one tenant to the portal returns data of another tenant.

Put here: fuzzed requests, and two fleets that differ only in another tenant.
Not here: single refusals (`unit/test_portal_pages`).
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal import api
from portal.site import PAGES
from tests.portal_by_hand import (
    INVOICE,
    OTHER,
    OWN,
    TWO_USD,
    Portal,
    fleet_rows,
    merged,
    pod_rows,
    portal_at,
    tenant_rows,
    write,
)

CANARY = "canary-7f3a"
NEIGHBOURS_COST = Decimal(7_770_000_000)
SECRETS = (CANARY.encode(), b"7.77", b"23.31", INVOICE + OTHER.encode(), b"INV-000002")


def own_rows() -> dict[str, list[Any]]:
    return merged(
        fleet_rows(),
        tenant_rows(OWN, TWO_USD * 6, TWO_USD * 2),
        pod_rows(OWN, "a"),
        pod_rows(OWN, "b"),
    )


def with_neighbour(cost: Decimal = NEIGHBOURS_COST, pods: int = 2) -> dict[str, list[Any]]:
    parts = [pod_rows(OTHER, f"{CANARY}-{n}", cost=cost) for n in range(pods)]
    return merged(own_rows(), tenant_rows(OTHER, cost * 3, cost), *parts)


def paths(tenant: str) -> list[str]:
    names = {"tenant": tenant, "number": "INV-000001", "name": "INV-000001.pdf"}
    pages = [path.format(**names) for path in PAGES]
    tables = [f"{api.ROOT}{table.path.format(**names)}" for table in api.TABLES]
    return [*pages, *tables, *(f"{table}?format=csv" for table in tables)]


def observed(portal: Portal, path: str) -> tuple[int, bytes, list[tuple[str, str]]]:
    portal.settings.limits._callers.clear()  # the rate limit is not tested here
    found = portal.get(path)
    return found.status_code, found.content, sorted(found.headers.items())


def test_two_fleets_that_differ_in_another_tenant_give_the_same_bytes(tmp_path: Path) -> None:
    one = portal_at(tmp_path / "one", with_neighbour())
    other = portal_at(tmp_path / "two", with_neighbour(NEIGHBOURS_COST * 9, pods=5))
    for path in [*paths(OWN), *paths(OTHER)]:
        assert observed(one, path) == observed(other, path), path


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Portal:
    return portal_at(tmp_path_factory.mktemp("fuzzed") / "home", with_neighbour())


# Names of the neighbour in other spellings, encodings and alphabets.
NAMES = st.sampled_from(
    [
        OTHER,
        OWN,
        OTHER.upper(),
        f"{OTHER}.",
        f" {OTHER}",
        f"{OTHER}%00",
        f"..%2F{OTHER}",
        f"%2e%2e/{OTHER}",
        f"{OWN}/../{OTHER}",
        f"{OWN}%2F..%2F{OTHER}",
        f"{OWN};{OTHER}",
        f"{OWN},{OTHER}",
        "%6eeighbour",
        "%256eeighbour",
        "n\u0435ighbour",  # a Cyrillic letter
        "\uff4eeighbour",  # a full-width letter
        "neighb\u200bour",
        "' or tenant <> '",
        "*",
        "",
    ]
)
TEXTS = st.one_of(NAMES, st.text(max_size=20), st.sampled_from(["2026-10", "csv", "label:team"]))
PARAMETERS = st.lists(
    st.tuples(
        st.one_of(st.sampled_from([*api._PARAMETERS, "label", "tenant", "name", "kind"]), TEXTS),
        TEXTS,
    ),
    max_size=4,
)
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "X-Forwarded-User",
            "X-Remote-User",
            "X-Forwarded-Host",
            "X-Original-URL",
            "X-Rewrite-URL",
            "X-HTTP-Method-Override",
            "Impersonate-User",
            "Cookie",
            "If-None-Match",
            "Range",
            "Accept-Encoding",
        ]
    ),
    st.sampled_from([OTHER, f"/tenants/{OTHER}", f"gpu-ledger-portal={OTHER}", "GET", "bytes=0-9"]),
    max_size=3,
)
METHODS = st.sampled_from(["GET", "GET", "GET", "HEAD", "POST", "PUT", "OPTIONS", "TRACE"])
PATHS = st.one_of(
    st.builds(
        lambda template, name, file: template.format(tenant=name, number="INV-000002", name=file),
        st.sampled_from([*PAGES, *(f"{api.ROOT}{table.path}" for table in api.TABLES)]),
        NAMES,
        st.sampled_from(["INV-000002.pdf", f"..%2F..%2F{OTHER}%2FINV-000002.pdf"]),
    ),
    st.builds(lambda text: "/" + text, st.text(max_size=30)),
)


@pytest.mark.explore
@given(METHODS, PATHS, PARAMETERS, HEADERS, st.integers(0, 199))
def test_no_request_of_a_tenant_reads_a_byte_of_another_one(
    portal: Portal,
    method: str,
    path: str,
    parameters: list[tuple[str, str]],
    headers: dict[str, str],
    chance: int,
) -> None:
    if chance == 137:  # occasionally the snapshots are switched
        write(portal.home, with_neighbour(pods=1 + len(path) % 3))
    portal.settings.limits._callers.clear()
    authorised = headers | {"Authorization": f"Bearer {portal.tokens[OWN]}"}
    try:
        found = portal.client.request(method, path, params=parameters, headers=authorised)
    except (httpx.InvalidURL, UnicodeEncodeError):
        return  # no client can send it
    assert found.status_code in (200, 303, 304, 400, 403, 404, 405, 414, 421), found.text
    whole = found.content + repr(sorted(found.headers.items())).encode()
    assert [secret for secret in SECRETS if secret in whole] == []
