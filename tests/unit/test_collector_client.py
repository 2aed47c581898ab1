"""The collector's client: responses that it accepts and refuses, and its requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from clients import kubernetes as client_module
from clients import kubernetes_responses as responses_module
from clients.credentials import CredentialUnreadable, ServerAccess, TokenWithoutTls
from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import (
    HistoryGone,
    NotKubernetes,
    ServerRefused,
    ServerUnreachable,
)
from domain.clock import StoppedClock
from ingestion.kubernetes.observations import ListedPage
from ingestion.kubernetes.requests import is_allowed, look_up_owner, take_list
from ingestion.kubernetes.watched_resources import PATHS, owner_path
from tests.kubernetes_by_hand import NOON

URL = "https://api.example:6443"
TOKEN_OF_RANCHER = "kubeconfig-u-abcde:xq7p2n9v"
Answer = Callable[[httpx.Request], httpx.Response]


def talking(answer: Answer, **settings: object) -> KubernetesClient:
    return KubernetesClient(ServerAccess(URL, **settings), httpx.MockTransport(answer))  # type: ignore[arg-type]


def saying(body: object, status: int = 200, **headers: str) -> Answer:
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    plain = {"content-type": "application/json"} | {k.replace("_", "-"): v
                                                    for k, v in headers.items()}  # fmt: skip
    return lambda _: httpx.Response(status, content=text, headers=plain)


def a_list(*items: dict[str, object], version: str = "7", more: str = "") -> dict[str, object]:
    return {
        "kind": "PodList",
        "metadata": {"resourceVersion": version, "continue": more},
        "items": list(items),
    }


def status(code: int, reason: str) -> dict[str, object]:
    return {"kind": "Status", "code": code, "reason": reason, "message": f"it is {reason}"}


# --- lists ---------------------------------------------------------------------------------------


def test_pages_are_followed_to_the_last() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        more = {"": "t1", "t1": "t2", "t2": ""}[request.url.params.get("continue", "")]
        return httpx.Response(200, json=a_list({"n": len(asked)}, more=more))

    pages = list(talking(answer).pages(PATHS["pods"]))
    assert [page.documents[0]["n"] for page in pages] == [1, 2, 3]
    assert asked == [
        {"limit": "500"},
        {"limit": "500", "continue": "t1"},
        {"limit": "500", "continue": "t2"},
    ]


def test_a_server_that_pages_without_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAGES_LIMIT", 3)
    with pytest.raises(NotKubernetes, match="more than 3 pages"):
        list(talking(saying(a_list(more="again"))).pages(PATHS["pods"]))


@pytest.mark.parametrize(
    "answer",
    [
        saying("<html>Log in</html>", content_type="text/html"),
        saying('{"items": [{"metad'),
        saying("[]"),
        saying({"kind": "PodList"}),
        saying({"metadata": {}, "items": []}),
        saying({"metadata": {"resourceVersion": ""}, "items": []}),
    ],
    ids=["login page", "half", "an array", "no items", "no version", "empty version"],
)
def test_a_response_that_is_not_a_list_is_not_an_empty_list(answer: Answer) -> None:
    with pytest.raises(NotKubernetes):
        list(talking(answer).pages(PATHS["pods"]))


def test_a_list_with_an_invalid_object_is_refused_whole() -> None:
    """The objects before it are refused, too: they would be remembered without a journal line."""
    page = a_list({"metadata": {"uid": "a"}}, {"metadata": {"uid": "b", "labels": {"x": "?"}}})
    body = json.dumps(page).encode().replace(b"?", b"\xff")
    taken: list[ListedPage] = []
    got = take_list(talking(saying(body)), StoppedClock(NOON), "nodes", "hourly", "", taken.append)
    assert ([page.documents for page in taken], got.complete) == ([()], False)
    assert "incomplete JSON document" in got.reason


def test_labels_with_half_a_character_are_read() -> None:
    body = json.dumps(a_list({"metadata": {"uid": "a", "labels": {"l": "\ud800"}}}))
    (page,) = talking(saying(body)).pages(PATHS["pods"])
    assert page.documents[0]["metadata"]["labels"] == {"l": "\ud800"}


def test_an_endless_response_is_refused_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(responses_module, "BODY_BYTES_LIMIT", 1000)
    with pytest.raises(NotKubernetes, match="more than 1000 bytes"):
        list(talking(saying(" " * 2000)).pages(PATHS["pods"]))


def test_a_token_that_expired_between_pages_is_history_gone() -> None:
    with pytest.raises(HistoryGone):
        list(talking(saying(status(410, "Expired"), 410)).pages(PATHS["pods"]))


@pytest.mark.parametrize("code", [401, 403, 404, 429, 500, 503])
def test_a_refusal_keeps_its_status_and_its_reason(code: int) -> None:
    with pytest.raises(ServerRefused, match="it is Because") as caught:
        list(talking(saying(status(code, "Because"), code)).pages(PATHS["pods"]))
    assert (caught.value.status, caught.value.reason) == (code, "Because")


@pytest.mark.parametrize(("header", "seconds"), [("5", 5), ("86400", 60), ("soon", 0), ("", 0)])
def test_a_retry_after_is_followed_within_a_limit(header: str, seconds: int) -> None:
    answer = saying(status(429, "TooManyRequests"), 429, retry_after=header)
    with pytest.raises(ServerRefused) as caught:
        list(talking(answer).watch(PATHS["pods"], 1))
    assert caught.value.retry_after_seconds == seconds


def test_a_redirect_is_not_followed() -> None:
    """A token must not be sent to the address in a response."""
    answer = saying("", 302, location="https://elsewhere.example/")
    with pytest.raises(ServerRefused):
        list(talking(answer).pages(PATHS["pods"]))


# --- watches -------------------------------------------------------------------------------------


def event(kind: str, version: str, **parts: object) -> bytes:
    document = {"metadata": {"resourceVersion": version}} | parts
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"


def test_a_watch_passes_its_events_on() -> None:
    body = event("ADDED", "8") + event("BOOKMARK", "12")
    told = list(talking(saying(body)).watch(PATHS["pods"], 7))
    assert [(e.kind, e.version) for e in told] == [("ADDED", 8), ("BOOKMARK", 12)]


def test_a_watch_requests_bookmarks_from_its_last_version() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        return httpx.Response(200, content=b"", headers={"content-type": "application/json"})

    assert list(talking(answer).watch(PATHS["nodes"], 41)) == []
    assert asked == [
        {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "41",
            "timeoutSeconds": "1800",
        }
    ]


@pytest.mark.parametrize(
    "error", [status(410, "Expired"), status(410, "Gone"), {"code": 200, "reason": "Expired"}]
)
def test_a_410_inside_the_stream_is_history_gone(error: dict[str, object]) -> None:
    body = event("ADDED", "8") + json.dumps({"type": "ERROR", "object": error}).encode() + b"\n"
    stream = talking(saying(body)).watch(PATHS["pods"], 7)
    assert next(stream).version == 8
    with pytest.raises(HistoryGone):
        next(stream)


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (event("ADDED", "8")[:-10], "within an event"),
        (b"not json\n", "incomplete JSON"),
        (b'{"type": 5, "object": {}}\n', "no watch event"),
    ],
)
def test_a_broken_or_invalid_stream_is_refused(body: bytes, seen: str) -> None:
    with pytest.raises(NotKubernetes, match=seen):
        list(talking(saying(body)).watch(PATHS["pods"], 7))


def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses_module, "EVENT_BYTES_LIMIT", 1000)
    with pytest.raises(NotKubernetes, match="more than 1000 bytes"):
        list(talking(saying(b"x" * 2000)).watch(PATHS["pods"], 7))


def test_an_unreachable_server_is_an_error() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    for ask in (
        lambda c: list(c.pages(PATHS["pods"])),
        lambda c: list(c.watch(PATHS["pods"], 1)),
        lambda c: is_allowed(c, "list", "pods"),
    ):
        with pytest.raises(ServerUnreachable, match="connection refused"):
            ask(talking(answer))


# --- tokens and certificates ---------------------------------------------------------------------


def test_the_token_is_read_again_for_every_request(tmp_path: Path) -> None:
    """A projected token rotates: a client with the old one would be refused after an hour."""
    token_file = tmp_path / "token"
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("authorization"))
        return httpx.Response(200, json=a_list())

    talker = talking(answer, token_file=token_file)
    for token in ("first", "second\n", TOKEN_OF_RANCHER):
        token_file.write_text(token)
        list(talker.pages(PATHS["pods"]))
    assert sent == ["Bearer first", "Bearer second", f"Bearer {TOKEN_OF_RANCHER}"]


def test_a_token_is_sent_over_tls_only(tmp_path: Path) -> None:
    with pytest.raises(TokenWithoutTls):
        KubernetesClient(ServerAccess("http://api.example:8080", token_file=tmp_path / "token"))


def test_a_token_that_cannot_be_read_is_named_by_its_file(tmp_path: Path) -> None:
    talker = talking(saying(a_list()), token_file=tmp_path / "missing")
    with pytest.raises(CredentialUnreadable, match="missing"):
        list(talker.pages(PATHS["pods"]))


@pytest.mark.parametrize("content", ["", "s3cr3t\nc4n4ry", "s3cr3t c4n4ry", "s3cr3t\0", "s3cr3tä"])
def test_an_invalid_token_is_neither_sent_nor_shown(tmp_path: Path, content: str) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(content)
    with pytest.raises(CredentialUnreadable, match="form of a bearer token") as caught:
        list(talking(saying(a_list()), token_file=token_file).pages(PATHS["pods"]))
    assert "s3cr3t" not in caught.value.message()


def test_invalid_certificates_are_refused(tmp_path: Path) -> None:
    bad = tmp_path / "ca.crt"
    bad.write_text("no certificate")
    with pytest.raises(CredentialUnreadable, match=r"ca\.crt"):
        KubernetesClient(ServerAccess(URL, ca_file=bad))


def test_tls_verification_cannot_be_disabled() -> None:
    source = Path(client_module.__file__).read_text()
    assert "verify=False" not in source
    assert "CERT_NONE" not in source
    assert "check_hostname" not in source


# --- reviews and owners --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        ({"status": {"allowed": True}}, True),
        ({"status": {"allowed": False}}, False),
        ({"status": {}}, False),
        ({"status": "yes"}, False),
    ],
)
def test_only_an_explicit_yes_is_a_yes(answer: dict[str, object], allowed: bool) -> None:
    assert is_allowed(talking(saying(answer, 201)), "list", "resourceclaims") is allowed


def test_a_review_names_the_group_of_the_resource() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content)["spec"]["resourceAttributes"])
        return httpx.Response(201, json={"status": {"allowed": True}})

    talker = talking(answer)
    is_allowed(talker, "watch", "pods")
    is_allowed(talker, "list", "resourceslices")
    assert asked == [
        {"group": "", "resource": "pods", "verb": "watch"},
        {"group": "resource.k8s.io", "resource": "resourceslices", "verb": "list"},
    ]


def test_only_a_known_kind_with_a_valid_name_is_queried() -> None:
    """Users write owner references, so they must not lead to another path of the server."""
    path = "/apis/serving.kserve.io/v1beta1/namespaces/team-a/inferenceservices/chat"
    assert owner_path("serving.kserve.io/v1beta1", "InferenceService", "team-a", "chat") == path
    for version, kind, namespace, name in (
        ("v1", "Secret", "team-a", "password"),
        ("example.com/v1", "Unknown", "team-a", "x"),
        ("apps/v1/../../../api/v1", "ReplicaSet", "team-a", "x"),
        ("apps/v1", "ReplicaSet", "team-a", "../../../../api/v1/secrets"),
        ("apps/v1", "ReplicaSet", "../team-b", "x"),
        ("apps/v1", "ReplicaSet", "team-a", "x?watch=true"),
        ("apps/v1", "ReplicaSet", "team-a", ""),
    ):
        assert owner_path(version, kind, namespace, name) == ""


def test_an_owner_that_is_deleted_or_not_readable_is_no_owner() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "team-a", "name": "a-5d"}
    for code in (403, 404):
        assert look_up_owner(talking(saying(status(code, "No"), code)), owner) == {}
    assert look_up_owner(talking(saying(status(500, "No"), 500)), owner) is None
    assert look_up_owner(talking(saying({})), owner | {"kind": "Unknown"}) == {}
