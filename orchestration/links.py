"""Where things are in Dagster's web pages, below their address.

Put here: the paths that our texts point to.
Not here: starting the pages (`orchestration.pages`).
"""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

import dagster as dg

from orchestration.partitions import hour_name

LOCATION = "gpu-ledger"
"""The name of the code location, as `workspace.yaml` gives it."""


def asset_link(key: dg.AssetKey) -> str:
    return f"/assets/{'/'.join(quote(part) for part in key.path)}"


def strip_link(key: dg.AssetKey) -> str:
    """The strip of all partitions of an asset."""
    return f"{asset_link(key)}?view=partitions"


def partition_link(key: dg.AssetKey, hour: datetime) -> str:
    """The page of one hour, with everything that was said about it."""
    return f"{strip_link(key)}&partition={quote(hour_name(hour))}&showAllEvents=true"


def launch_link(job: str) -> str:
    """Where a job is configured and launched."""
    return f"/locations/{LOCATION}/jobs/{job}/playground"
