"""A real S3 server for tests: versitygw over a folder, on loopback, behind a network to be cut.

Put here: starting it, and the environment by which clients find it.
Not here: what is kept in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.cuttable import Relay, relayed
from tests.servers.process import free_port, listens, required, running

ACCESS, SECRET, REGION = "gpu-ledger-test", "no-secret-at-all", "us-east-1"
BUCKET = "ledger"


@dataclass
class Bucket:
    """One bucket of a running server."""

    relay: Relay
    folder: Path  # where the server keeps the objects as files

    def url(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs to know; the same names as any other client of S3 reads."""
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
        # Not with --sidecar: attributes beside the objects change apart from them, and of two who
        # swap at once both may win.
        "posix",
        root,
    ]
    log = folder / "versitygw.log"
    with running(command, lambda: listens(port), log), relayed(port) as relay:
        yield Bucket(relay, root / BUCKET)
