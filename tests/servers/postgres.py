"""A real PostgreSQL for tests: its own cluster in a temporary folder, on loopback, no password.

Put here: starting, stopping and restarting it.
Not here: Dagster's tables in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import free_port, required, running

PLACES = "/usr/lib/postgresql/*/bin"


@dataclass(frozen=True)
class Postgres:
    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql://ledger@127.0.0.1:{self.port}/postgres"


def _account() -> str | None:
    """PostgreSQL refuses to run as root; Debian's package has an account for it."""
    return "postgres" if os.geteuid() == 0 else None


def make_cluster(folder: Path) -> Postgres:
    """A new, empty database cluster below `folder`."""
    initdb = required("initdb", f"{PLACES}/initdb")
    folder.mkdir(parents=True)
    account = _account()
    if account:
        shutil.chown(folder, account)
        for parent in list(folder.parents)[:4]:
            if parent != Path("/tmp") and parent.stat().st_uid == 0:
                parent.chmod(parent.stat().st_mode | 0o011)
    command = [
        initdb,
        "-D",
        folder / "data",
        "-U",
        "ledger",
        "--auth=trust",
        "--no-sync",
        "-E",
        "UTF8",
    ]
    subprocess.run(list(map(str, command)), user=account, check=True, capture_output=True, cwd="/")
    return Postgres(folder, free_port())


@contextmanager
def started(postgres: Postgres) -> Iterator[Postgres]:
    """The running cluster. It stops at the end of the block; another block starts it again."""
    program = required("postgres", f"{PLACES}/postgres")
    command = [
        *(program, "-D", postgres.folder / "data", "-p", str(postgres.port)),
        *("-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={postgres.folder}"),
        *("-c", "fsync=off", "-c", "max_connections=200"),
    ]
    log = postgres.folder / "server.log"
    log.touch()
    with running(command, lambda: _answers(postgres), log, user=_account()):
        yield postgres


def _answers(postgres: Postgres) -> bool:
    """Whether it accepts a session; it listens before it is ready."""
    import psycopg2

    try:
        psycopg2.connect(postgres.url, connect_timeout=5).close()
    except psycopg2.OperationalError:
        return False
    return True
