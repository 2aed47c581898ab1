"""The client's server-side apply, over a transport of the test."""

from __future__ import annotations

import httpx

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient


def test_an_apply_names_its_field_manager_and_forces_only_on_request() -> None:
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    client = KubernetesClient(ServerAccess("http://api.test"), httpx.MockTransport(respond))
    client.apply("/api/v1/nodes/n", {"kind": "Node"}, field_manager="m")
    client.apply("/api/v1/nodes/n", {"kind": "Node"}, field_manager="m", force=True)
    assert [dict(one.url.params) for one in seen] == [
        {"fieldManager": "m", "force": "false"},
        {"fieldManager": "m", "force": "true"},
    ]
    assert seen[0].headers["content-type"] == "application/apply-patch+yaml"
