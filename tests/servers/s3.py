"""A real S3 server for tests: versitygw over a folder, on loopback, behind a relay.

Put here: starting it, its users, a bucket policy, and the environment variables of its clients.
Not here: the stored objects.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx

from tests.servers.network_relay import Relay, relayed
from tests.servers.process import free_port, listens, required, running

ACCESS, SECRET, REGION = "gpu-ledger-test", "no-secret-at-all", "us-east-1"
BUCKET = "ledger"
USERS = ("writer", "reader")
"""They may do what the bucket policy allows, and nothing without one."""


@dataclass
class Bucket:
    """One bucket of a running server."""

    relay: Relay
    folder: Path  # the server's folder with the objects as files

    def url(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"

    @property
    def environment(self) -> dict[str, str]:
        """The settings of the owner's client, in the usual variables of S3 clients."""
        return self.environment_of(ACCESS)

    def environment_of(self, user: str) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.relay.port}",
            "AWS_ACCESS_KEY_ID": user,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
        }

    def set_policy(self, policy: Mapping[str, object]) -> None:
        """PutBucketPolicy by the owner, signed with version 4 of AWS."""
        body = json.dumps(policy).encode()
        host, second = f"127.0.0.1:{self.relay.port}", f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        digest = hashlib.sha256(body).hexdigest()
        headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": second}
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"PUT\n/{BUCKET}\npolicy=\n{lines}\n{names}\n{digest}"
        scope = f"{second[:8]}/{REGION}/s3/aws4_request"
        hashed = hashlib.sha256(request.encode()).hexdigest()
        key = f"AWS4{SECRET}".encode()
        for text in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{second}\n{scope}\n{hashed}"):
            key = hmac.digest(key, text.encode(), "sha256")
        credential = f"Credential={ACCESS}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
        headers["authorization"] = f"AWS4-HMAC-SHA256 {credential}"
        httpx.put(
            f"http://{host}/{BUCKET}?policy=", content=body, headers=headers
        ).raise_for_status()


@contextmanager
def s3_server(folder: Path) -> Iterator[Bucket]:
    """A server with one empty bucket."""
    root = folder / "objects"
    (root / BUCKET).mkdir(parents=True)
    (folder / "users").mkdir()
    users = {name: {"access": name, "secret": SECRET, "role": "user"} for name in USERS}
    (folder / "users" / "users.json").write_text(json.dumps({"accessAccounts": users}))
    port = free_port()
    command = [
        required("versitygw"),
        *("--access", ACCESS, "--secret", SECRET, "--region", REGION),
        *("--port", f"127.0.0.1:{port}"),
        *("--iam-dir", folder / "users"),
        "--keep-alive",
        # Not with --sidecar: it stores attributes apart from the objects, so two simultaneous swaps
        # may both succeed.
        "posix",
        root,
    ]
    log = folder / "versitygw.log"
    with running(command, lambda: listens(port), log), relayed(port) as relay:
        yield Bucket(relay, root / BUCKET)
