"""A real S3 server for tests: versitygw over a folder, on loopback, behind a relay.

Put here: starting it, and the environment variables of its clients.
Not here: the stored objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.network_relay import Relay, relayed
from tests.servers.process import free_port, listens, required, running

ACCESS, SECRET, REGION = "gpu-ledger-test", "no-secret-at-all", "us-east-1"
BUCKET = "ledger"


@dataclass
class Bucket:
    """One bucket of a running server."""

    relay: Relay
    folder: Path  # the server's folder with the objects as files

    def url(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"

    @property
    def environment(self) -> dict[str, str]:
        """The settings of a client, in the usual variables of S3 clients."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.relay.port}",
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
        }


@contextmanager
def s3_server(folder: Path) -> Iterator[Bucket]:
    """A server with one empty bucket."""
    root = folder / "objects"
    (root / BUCKET).mkdir(parents=True)
    port = free_port()
    command = [
        required("versitygw"),
        *("--access", ACCESS, "--secret", SECRET, "--region", REGION),
        *("--port", f"127.0.0.1:{port}"),
        "--keep-alive",
        # Not with --sidecar: it stores attributes apart from the objects, so two simultaneous swaps
        # may both succeed.
        "posix",
        root,
    ]
    log = folder / "versitygw.log"
    with running(command, lambda: listens(port), log), relayed(port) as relay:
        yield Bucket(relay, root / BUCKET)
