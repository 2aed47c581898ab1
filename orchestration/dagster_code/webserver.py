"""Dagster's web server behind our access layer: `python -m orchestration.dagster_code.webserver`.

Put here: creating and serving Dagster's own application.
Not here: which requests reach it (`portal.access`), or its process (`web_ui`).

Dagster has no setting for a layer in front of its application, so this module does the same as the
program `dagster-webserver`. Two of its imports are not public; pyproject.toml pins the version.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import dagster as dg
import uvicorn
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.version import __version__

from orchestration.dagster_code.web_ui import KEY
from portal.access import AccessLayer, Hosts

GRAPHQL = "/graphql"

STATEMENT_TIMEOUT_MS = 15_000
POOL_RECYCLE_SECONDS = 3600
POOL_OVERFLOW = 20
"""These three are the defaults of `dagster-webserver`; only PostgreSQL uses them."""


@contextlib.asynccontextmanager
async def _lifespan(app: Any) -> AsyncIterator[None]:
    """uvicorn cancels it on Ctrl-C, which is not an error."""
    del app
    with contextlib.suppress(asyncio.CancelledError):
        yield


def serve(host: str, port: int, folder: Path) -> None:
    """Serve Dagster's pages from the prepared folder of a home, until a signal."""
    # SIGTERM ends the process as Ctrl-C does, so that the code server ends as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        dg.DagsterInstance.get() as instance,
        WorkspaceProcessContext(
            instance,
            version=__version__,
            read_only=False,
            workspace_load_target=WorkspaceFileTarget([str(folder / "workspace.yaml")]),
        ) as context,
    ):
        instance.optimize_for_webserver(STATEMENT_TIMEOUT_MS, POOL_RECYCLE_SECONDS, POOL_OVERFLOW)
        pages = create_app_from_workspace_process_context(context, lifespan=_lifespan)
        key = (folder / KEY).read_text(encoding="utf-8")
        guarded: Any = AccessLayer(pages, Hosts.of(host), key, posts=[GRAPHQL])
        uvicorn.run(guarded, host=host, port=port, log_level="warning")


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
