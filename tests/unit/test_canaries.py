"""No command prints, stores or packs a secret, even if a server repeats it.

Put here: the installed command line, with a secret in every place that can hold one.
Not here: each way in which a response may repeat a token (`test_landing_secrets`,
`test_collector_secrets`).
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
import zstandard

from warehouse.home import Home

pytestmark = [pytest.mark.deep, pytest.mark.engines]

CLUSTER = "0a7c1d52-3c4e-4b8a-9d5f-6f1e2a3b4c5d"
SIGNED = "by hand,ada,2026-01-02"
TOKEN = "canary/token+5d1f"
CANARIES = {
    "GPU_LEDGER_POSTGRES_URL": "postgresql://u:canary-postgres-77aa@127.0.0.1:1/ledger",
    "AWS_SECRET_ACCESS_KEY": "canary-bucket-9c3e",
}
SECRETS = (TOKEN, "canary-postgres-77aa", "canary-bucket-9c3e")
COMMANDS = (
    ("doctor",),
    ("doctor", "-o", "json"),
    ("pull", "--hours", "2026-10-01T00..2026-10-01T02"),
    ("--json-errors", "pull", "--hours", "2026-10-01T02..2026-10-01T03", "--all"),
    ("hours", "2026-10"),
    ("refresh", "--period", "2026-10"),
    ("gaps", "2026-10"),
    ("check", "2026-10", "-o", "json"),
    ("landing", "verify"),
    ("support-bundle", "--to", "bundle.zip"),
)


class Echo(BaseHTTPRequestHandler):
    """A server that repeats the token of its client in errors, warnings, labels and pages
    in turn.
    """

    count = 0

    def do_GET(self) -> None:
        type(self).count += 1
        sent = self.headers.get("Authorization", "")
        basic = b64encode(f"x:{sent}".encode()).decode()
        series = {"metric": {"__name__": "up", "seen": sent}, "values": [[1790812800, "1"]]}
        status, body = [
            (401, json.dumps({"status": "error", "error": f"expired: {sent}"})),
            (500, f"<pre>{sent} {quote(sent)} {basic}</pre>"),
            (200, json.dumps({"status": "success", "warnings": [sent], "data": {}})),
            (200, json.dumps({"status": "success", "data": {"result": [series]}})),
            (403, json.dumps({"kind": "Status", "message": f"{sent} may not list pods"})),
        ][self.count % 5]
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def forms(secret: str) -> set[bytes]:
    """The spellings of a secret in responses, URLs and logs; base64 at each of its three
    offsets.
    """
    found = {secret.encode(), quote(secret, safe="").encode(), quote(secret).encode()}
    found |= {json.dumps(secret)[1:-1].encode()}
    for before in range(3):
        encoded = b64encode(b"-" * before + secret.encode())
        found.add(encoded[4 if before else 0 : -4])
    return found


def places_of_secrets(name: str, body: bytes) -> list[tuple[str, bytes]]:
    return [(name, form) for secret in SECRETS for form in forms(secret) if form in body]


def every_byte(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file, and the contents of archives."""
    for path in folder.rglob("*"):
        if path.is_file():
            body = path.read_bytes()
            yield str(path), body
            if path.suffix == ".zst":
                yield str(path), zstandard.ZstdDecompressor().decompress(body)
            if path.suffix == ".zip":
                with zipfile.ZipFile(io.BytesIO(body)) as archive:
                    yield from ((f"{path}/{n}", archive.read(n)) for n in archive.namelist())


def test_no_command_prints_stores_or_packs_a_secret(tmp_path: Path, echo: str) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    config = (
        f'[thanos.hub]\nurl = "{echo}"\ntoken_file = "{token}"\n'
        f'[clusters.{CLUSTER}]\nthanos = "hub"\n'
        f'[clusters.{CLUSTER}.kubernetes]\nurl = "{echo}"\ntoken_file = "{token}"\n'
    )
    home = Home.create(tmp_path / "home", config)
    (home.decisions / "clusters.csv").write_text(
        "cluster_id,cluster_name,valid_from,valid_until,sources,sample_interval_seconds,"
        "scrape_interval_seconds,reason,decided_by,decided_on\n"
        f"{CLUSTER},east,2026-10-01T00:00:00Z,,samples,30,30,{SIGNED}\n"
    )
    program = str(Path(sys.executable).with_name("gpu-ledger"))
    ended = {}
    for arguments in COMMANDS:
        ran = subprocess.run(
            [program, *arguments, "--home", str(home.path)],
            env={**os.environ, **CANARIES, "NO_COLOR": "1"},
            cwd=tmp_path,
            capture_output=True,
        )
        said = ran.stdout + ran.stderr
        ended[arguments] = ran.returncode
        assert b"Traceback" not in said, said.decode()
        assert places_of_secrets(" ".join(arguments), said) == []
    assert Echo.count > 10  # the token was sent and repeated
    assert ended["support-bundle", "--to", "bundle.zip"] == 0, ended
    assert ended["doctor",] != 0
    assert ended["landing", "verify"] == 0
    kept = [(n, b) for n, b in every_byte(tmp_path) if n != str(token)]
    assert {Path(name).name for name, _ in kept} >= {"attempts.json", "settings.json"}
    assert [place for name, body in kept for place in places_of_secrets(name, body)] == []
