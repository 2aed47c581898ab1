"""P9: a month of three clusters backfilled in one Dagster run, against the same pulls alone.

Put here: a backfill with and without Dagster, and an hourly cycle with and without it.
Not here: the time of a pull (`bench_pull`).

    python -m bench.bench_backfill [--days 31]

A process of its own serves a simulated fleet of three clusters, so that the simulator's time is on
neither side. Each side has its own home. The time of a Dagster process before its first step is
reported separately, and compared with importing Dagster alone.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.measurement import Measurement
from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.decisions import Source
from domain.interval import Interval, format_instant
from orchestration import steps
from orchestration.dagster_code.build import build_defs
from orchestration.dagster_code.instance import make_pool, prepare
from orchestration.dagster_code.model_graph import prepared_graph
from orchestration.dagster_code.partitions import hour_name
from orchestration.dagster_code.resources import LedgerHome
from orchestration.dagster_code.run_tags import RANGE_END, RANGE_START
from orchestration.demo.demo_home import make_home
from orchestration.demo.fleet_process import serve_in_own_process
from orchestration.open_home import OpenHome
from orchestration.publishing import publish

GOAL, CYCLE_GOAL = 5.0, 2.0
"""Dagster writes about six events per hour to SQLite, 20 ms together; pulls write none. A step of
the hourly cycle takes seconds.
"""

LOADING = 2.5
"""Loading our definitions may take 1.5 times the import of Dagster in addition."""

CLUSTERS = ("a", "b", "c")
DAYS = 31
FIRST = datetime(2026, 10, 1, tzinfo=UTC)
PERIOD = "2026-10"

SCENARIO = """
name: backfill
from: 2026-10-01
until: {until}
seed: 9
clusters:
{clusters}
"""
CLUSTER = """\
  - name: {name}
    id: {number}0000000-0000-4000-8000-000000000000
    nodes: [{{name: gpu, count: 4, product: Tesla-T4, cards: 4}}]
    workloads:
      - {{name: serve, namespace: chat, requests: 1, replicas: 6}}
      - {{name: train, namespace: physics, kind: Job, requests: 1, arrivals: {{every: ~3h}},
         lifetime: 2h..4h}}
"""


def scenario(days: int) -> str:
    clusters = [CLUSTER.format(name=name, number=n) for n, name in enumerate(CLUSTERS, 1)]
    until = (FIRST + timedelta(days=days)).date()
    return SCENARIO.format(until=until, clusters="".join(clusters))


@contextmanager
def homes(days: int, folder: Path) -> Iterator[tuple[OpenHome, OpenHome]]:
    """Two homes for one fleet, at the end of its month."""
    path = folder / "scenario.yaml"
    path.write_text(scenario(days), encoding="utf-8")
    now = FIRST + timedelta(days=days, hours=2)
    with serve_in_own_process(str(path), now) as running:
        made = []
        for name in ("alone", "dagster"):
            home = make_home(
                folder / name, running.fleet, running.thanos_url, running.kubernetes_urls
            )
            table = home.decisions / "clusters.csv"
            table.write_text(table.read_text().replace(",both,", ",samples,"))
            prepared_graph(home)
            made.append(OpenHome(home, StoppedClock(now)))
        yield made[0], made[1]


def timed(act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    assert act() is not False
    return time.perf_counter() - began


def start_up_seconds(opened: OpenHome, module: str) -> float:
    """CPU seconds of a new process that imports this module."""
    environment = {**os.environ, "GPU_LEDGER_HOME": str(opened.home.path)}
    command = [sys.executable, "-W", "ignore", "-c", f"import {module}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def dagster_on(opened: OpenHome) -> Iterator[Callable[..., bool]]:
    """A function that runs a job, or assets over a range of hours, in one run."""
    import dagster as dg

    os.environ.update(prepare(opened))
    make_pool()
    defs = build_defs(LedgerHome(str(opened.home.path), format_instant(opened.clock.now())))
    with dg.DagsterInstance.get() as instance:

        def run(job: str = "", partition: str | None = None, **how: Any) -> bool:
            found = (
                defs.resolve_job_def(job) if job else defs.resolve_implicit_global_asset_job_def()
            )
            ran = found.execute_in_process(instance=instance, partition_key=partition, **how)
            return bool(ran.success)

        yield run


def backfill(days: int, run: Callable[..., bool]) -> float:
    """Pull all hours of all clusters in one run."""
    import dagster as dg

    last = FIRST + timedelta(days=days, hours=-1)
    return timed(
        lambda: run(
            asset_selection=[dg.AssetKey([name, "thanos_hours"]) for name in CLUSTERS],
            tags={RANGE_START: hour_name(FIRST), RANGE_END: hour_name(last)},
        )
    )


def measure(days: int = DAYS) -> list[Measurement]:
    logging.disable(logging.CRITICAL)  # a run prints every event
    month = Interval(FIRST, FIRST + timedelta(days=days))
    last = Interval(month.ended_at - timedelta(hours=1), month.ended_at)
    period = BillingPeriod(PERIOD)
    with tempfile.TemporaryDirectory() as folder, homes(days, Path(folder)) as (alone, other):
        pulls = timed(lambda: steps.pull(alone, month, sources=[Source.THANOS]))
        dagster_alone, start_up = (
            min(start_up_seconds(other, module) for _ in range(2))
            for module in ("dagster", "orchestration.dagster_code.definitions")
        )
        with dagster_on(other) as run:
            through = backfill(days, run)
            # The cycle: the newest hour, the facts of the period, their check and copy. All of it
            # runs in this process, so the daemon's evaluations and the start of a worker are not
            # included.
            steps.refresh(alone, period)
            alone_cycle = [
                timed(lambda: steps.pull(alone, last, only_due=False)),
                timed(lambda: steps.refresh(alone, period)),
                timed(lambda: (steps.check_period(alone, period), publish(alone))),
            ]
            hours = {"from_hour": f"{last.started_at:%Y-%m-%dT%H}", "all_hours": True}
            hours |= {"until_hour": f"{last.ended_at:%Y-%m-%dT%H}"}
            config = {"ops": {"pull_configured_hours": {"config": hours}}}
            cycle = [
                timed(lambda: run("pull_hours", run_config=config)),
                timed(lambda: run("refresh_period", PERIOD)),
                timed(lambda: run("check_period", PERIOD)),
            ]
    count = len(CLUSTERS) * len(list(month.hours()))
    return [
        Measurement(
            goal="P9",
            quantity="a month's hours in one run of Dagster, against the same pulls",
            value=through / pulls,
            limit=GOAL,
            sense="at most",
            how=f"{count} hours of 3 clusters, pulls {pulls:.1f} s, through Dagster {through:.1f} s"
            f"; start-up apart: {start_up:.1f} s",
        ),
        Measurement(
            goal="P9",
            quantity="an hour's cycle (pull, refresh, check) in Dagster, against the same steps",
            value=sum(cycle) / sum(alone_cycle),
            limit=CYCLE_GOAL,
            sense="at most",
            how=f"{_seconds(cycle)} against {_seconds(alone_cycle)}; "
            f"start-up of each of the three runs apart: {start_up:.1f} s; in one process: a daemon "
            "looks every five seconds, and starts a worker for each run",
        ),
        Measurement(
            goal="P9",
            quantity="loading our definitions, against importing Dagster alone",
            value=start_up / dagster_alone,
            limit=LOADING,
            sense="at most",
            how=f"{start_up:.2f} s of the processor against {dagster_alone:.2f} s; dbt, DuckDB and "
            "Great Expectations are not imported",
        ),
    ]


def _seconds(parts: list[float]) -> str:
    return " + ".join(f"{part:.1f}" for part in parts) + " s"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=DAYS)
    for row in measure(parser.parse_args().days):
        print(row.line())
