"""The keys of a bucket in a file, which is read again for each request.

Put here: the key that a request is signed with, and files that cannot be used.
Not here: a store's guarantees (`test_store`), or a server that verifies signatures
(`tests/servers/test_s3_store`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from warehouse.store import Store, StoreUnusable, open_store


class Signed(HTTPServer):
    """Accepts every object, and notes the key of each request."""

    keys: list[str]


class Handler(BaseHTTPRequestHandler):
    server: Signed

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        credential = self.headers["Authorization"].partition("Credential=")[2]
        self.server.keys.append(credential.partition("/")[0])
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        del format, args


def write_keys(path: Path, key: str, section: str = "default") -> None:
    path.write_text(f"[{section}]\naws_access_key_id = {key}\naws_secret_access_key = canary%s\n")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    write_keys(tmp_path / "credentials", "FIRST")
    return tmp_path / "credentials"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Signed]:
    with Signed(("127.0.0.1", 0), Handler) as server:
        server.keys = []
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def store(file: Path, server: Signed) -> Store:
    del file, server
    return open_store("s3://evidence/landing")


def test_changed_keys_are_used_by_the_next_request(
    store: Store, server: Signed, file: Path
) -> None:
    store.create("a", b"1")
    write_keys(file, "SECOND")
    store.create("b", b"1")
    assert server.keys == ["FIRST", "SECOND"]


def test_the_profile_of_the_environment_selects_the_keys(
    store: Store, server: Signed, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "billing")
    write_keys(file, "BILLING", "billing")
    store.create("a", b"1")
    assert server.keys == ["BILLING"]


def test_keys_of_the_environment_come_first(
    file: Path, server: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    open_store("s3://evidence/landing").create("a", b"1")
    assert server.keys == ["ENVIRONMENT"]


@pytest.mark.parametrize("text", ["", "[other]\n", "[default]\ncanary\n", None])
def test_a_file_without_keys_is_an_error_that_does_not_repeat_it(
    store: Store, server: Signed, file: Path, text: str | None
) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    with pytest.raises(StoreUnusable) as raised:
        store.create("a", b"1")
    assert "no keys of [default] in /" in str(raised.value)
    assert "canary" not in str(raised.value)
    assert server.keys == []
