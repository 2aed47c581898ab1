"""The portal over a month of 10,000 GPUs: a page against its queries alone, and 1,000 snapshots.

Put here: the marts of such a month, and the measurements.
Not here: the correctness of pages (`tests/unit/test_portal_pages`).

    python -m bench portal

The page of one of 97 tenants is requested from the portal's own process by 10 and by 50 clients at
once. Its bare queries are the same statements on the same file, run by as many threads. The portal
runs them for the first page only, because it remembers their results until the facts change: the
ratio of the first page has the cost of everything around the queries (HTTP, access, rendering),
that of many clients has the cost that users meet. Both sides are CPU seconds, so that other work on
the machine changes them little. The snapshots are of the same cards, divided among 1,000 tenants.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

from bench.measurement import CannotMeasure, Measurement, peak_mib
from bench.month_of_a_fleet import PERIOD, START, Month, create_lives
from portal.tokens import FILE, create_token
from tests.marts_in_memory import fill
from tests.portal_by_hand import portal_of
from tests.servers.process import free_port
from warehouse.about import AboutPeriod
from warehouse.connection import connect, connected
from warehouse.home import Home
from warehouse.reports.opened_facts import Facts, Row
from warehouse.snapshots import write_snapshots

Statements = list[tuple[str, dict[str, object]]]
"""With their parameters."""

GOAL = "portal"
TENANT = "team-0"
PAGE = f"/tenants/{TENANT}"
MONTH = Month(nodes=1250)
CLIENTS = {10: 12, 50: 3}
"""Clients, and the pages that each requests one after another."""
RATIO_LIMIT, MILLISECONDS_LIMIT, MEMORY_LIMIT_MIB = 3.0, 100.0, 1024.0
SNAPSHOTS, SNAPSHOTS_SECONDS_LIMIT = 1000, 30.0
START_SECONDS_LIMIT = 60.0

PERIOD_NAME = f"'{PERIOD.name}' as billing_period"
POD = f"""
    {PERIOD_NAME}, namespace as tenant, 'c1' as cluster_id, uid as pod_uid, name as pod_name,
    format('gpu-{{}}', node) as node_name
"""
WORKLOAD = """
    'Job' as workload_kind, workload as workload_name, 'A100-40GB' as gpu_class,
    'whole' as mig_profile, 'EUR' as currency
"""
HOURS = f"range({START}, {MONTH.ended}, 3600)"
NANOS_PER_SECOND = 500_000


def seconds_between(started: int | str, ended: int | str) -> str:
    return f"greatest(0, least(ended, {ended}) - greatest(started, {started}))"


SELECTIONS = {
    "dim_tenants": f"select distinct {PERIOD_NAME}, namespace as tenant, 'tenant' as belongs_to "
    "from lives",
    "dim_clusters": f"select {PERIOD_NAME}, 'c1' as cluster_id, 'large' as cluster_name",
    "fct_coverage": f"""
        select {PERIOD_NAME}, 'c1' as cluster_id, source, to_timestamp(moment) as hour_started_at,
            'ok' as outcome, '' as reason, 0 as missing_count
        from {HOURS} as hours (moment), (values ('thanos'), ('kubernetes')) as sources (source)
    """,
    "fct_pod_hours": f"""
        select {POD}, {WORKLOAD}, 'tenant' as belongs_to, resource, 1 as device_count,
            1 as weight_numerator, 1 as weight_denominator, 0 as uncertainty_seconds,
            to_timestamp(moment) as hour_started_at,
            to_timestamp(greatest(started, moment)) as segment_started_at,
            to_timestamp(least(ended, moment + 3600)) as segment_ended_at,
            {seconds_between("moment", "moment + 3600")} as billable_seconds,
            {seconds_between("moment", "moment + 3600")} * {NANOS_PER_SECOND} as cost_nanos
        from lives, {HOURS} as hours (moment)
        where started < moment + 3600 and moment < ended
    """,
    "fct_gpu_use": f"""
        select {POD}, pod as device_uuid, to_timestamp(moment) as hour_started_at,
            3600 as allocated_seconds, hash(pod, moment) % 1000000 as use_millionths_average,
            hash(pod, moment) % 9 = 0 as is_idle, 3600 as idle_seconds,
            if(hash(pod, moment) % 9 = 0, {3600 * NANOS_PER_SECOND}, 0) as idle_nanos
        from lives, {HOURS} as hours (moment)
        where started < moment + 3600 and moment < ended
    """,
    "fct_forecasts": f"""
        select {PERIOD_NAME}, namespace as tenant, 'tenant' as subject, 'EUR' as currency,
            1 as forecast_nanos, 1 as forecast_low_nanos, 1 as forecast_high_nanos,
            'measured' as forecast_method, false as has_budget, 0 as budget_nanos,
            0 as budget_used_millionths
        from lives group by namespace
    """,
}


def measure() -> list[Measurement]:
    with tempfile.TemporaryDirectory(prefix="bench_portal_") as folder:
        home = home_of(Path(folder) / "pages", MONTH, f"namespace = '{TENANT}'")
        pages = _pages(home)
        many = Month(nodes=MONTH.nodes, tenants=SNAPSHOTS)
        home = home_of(Path(folder) / "snapshots", many, "true", snapshots=False)
        began = time.perf_counter()
        written = write(home)
        seconds = time.perf_counter() - began
    return [
        *pages,
        Measurement(GOAL, f"{SNAPSHOTS:,} snapshots of a month", seconds, SNAPSHOTS_SECONDS_LIMIT,
                    "at most", f"{written:,} files of {MONTH.gpus:,} GPUs, all of them new", "s"),
    ]  # fmt: skip


def home_of(path: Path, month: Month, of: str, *, snapshots: bool = True) -> Home:
    """A home with the marts of the pods of a month for which a condition holds."""
    home = Home.create(path)
    (path / "config.toml").touch()
    with connected(home.warehouse_path) as connection:
        connection.execute("create schema marts")
        fill(connection, "marts", {})
        create_lives(connection, month)
        connection.execute(f"delete from lives where not ({of})")
        for mart, selection in SELECTIONS.items():
            connection.execute(f"insert into marts.{mart} by name {selection}")
        for table in ("lives", "slots"):
            connection.execute(f"drop table {table}")
    if snapshots:
        write(home)
    return home


def write(home: Home) -> int:
    until = datetime.fromtimestamp(MONTH.ended, UTC)
    about = AboutPeriod(PERIOD.name, "estimated", until, until, "ab" * 32, None, None)
    return write_snapshots(home, [about], [], []).written_count


def _pages(home: Home) -> list[Measurement]:
    statements = _statements_of_a_page(home)
    tokens = [
        create_token(home.path / FILE, "tenant", TENANT, datetime.now(UTC).replace(microsecond=0))
        for _ in range(max(CLIENTS))
    ]
    rows = [_first_page(home, statements)]
    with _portal(home) as (process, port):
        _request(port, tokens[0])
        for clients, each in CLIENTS.items():
            took: list[float] = []

            def one_client(number: int, each: int = each, took: list[float] = took) -> None:
                for _ in range(each):
                    took.append(_request(port, tokens[number]))

            pages, before = clients * each, _processor_seconds(process.pid)
            _run_at_once(clients, one_client)
            ours = (_processor_seconds(process.pid) - before) / pages
            bare = _bare_processor_seconds(home, statements, clients, each) / pages
            p95 = sorted(took)[int(pages * 0.95)] * 1000
            sides = (
                f"{pages} pages by {clients} clients: {ours * 1000:.0f} ms of the processor a page "
                f"against {bare * 1000:.0f} ms for its {len(statements)} statements; 95th "
                f"percentile {p95:.0f} ms on the wall"
            )
            quantity = f"the page of a tenant against its queries, {clients} clients"
            rows.append(Measurement(GOAL, quantity, ours / bare, RATIO_LIMIT, "at most", sides))
            if clients == min(CLIENTS):
                quantity = f"95th percentile of {clients} clients"
                rows.append(
                    Measurement(GOAL, quantity, p95, MILLISECONDS_LIMIT, "at most", sides, "ms")
                )
        memory = peak_mib(process.pid)
    how = "the portal's process: its peak after all pages"
    return [*rows, Measurement(GOAL, "memory", memory, MEMORY_LIMIT_MIB, "at most", how, "MiB")]


def _first_page(home: Home, statements: Statements) -> Measurement:
    """A page in this process with nothing remembered, and the file to be opened."""
    portal = portal_of(home, home.path / "first.csv", (TENANT,))
    portal.get(PAGE, TENANT)  # compiles the templates
    portal.settings.snapshots.close()
    before = time.process_time()
    assert portal.get(PAGE, TENANT).status_code == 200
    first = time.process_time() - before
    portal.settings.snapshots.close()
    bare = _bare_processor_seconds(home, statements, 1, 10) / 10
    sides = (
        f"{first * 1000:.0f} ms of the processor, with opening the file, against "
        f"{bare * 1000:.0f} ms for its {len(statements)} statements"
    )
    quantity = "the first page of a tenant against its queries"
    return Measurement(GOAL, quantity, first / bare, RATIO_LIMIT, "at most", sides)


def _statements_of_a_page(home: Home) -> Statements:
    """The statements that the page runs, with their parameters."""
    found: Statements = []
    rows = Facts.rows

    def recorded(facts: Facts, statement: str, parameters: dict[str, object]) -> list[Row]:
        found.append((statement, dict(parameters or {})))
        return rows(facts, statement, parameters)

    portal = portal_of(home, home.path / "recorded.csv", (TENANT,))
    with mock.patch.object(Facts, "rows", lambda f, s, p=None: recorded(f, s, p)):
        assert portal.get(PAGE, TENANT).status_code == 200
    portal.settings.snapshots.close()
    return found


@contextmanager
def _portal(home: Home) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    program = Path(sys.executable).with_name("gpu-ledger")
    command = [str(program), "portal", f"--home={home.path}", f"--port={port}"]
    log = home.path / "portal.log"
    with open(log, "wb") as errors, subprocess.Popen(command, stderr=errors) as process:
        try:
            _wait_until_it_listens(port)
            yield process, port
        finally:
            process.terminate()


def _wait_until_it_listens(port: int) -> None:
    deadline, pause = time.monotonic() + START_SECONDS_LIMIT, threading.Event()
    while time.monotonic() < deadline:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pause.wait(0.1)
    raise CannotMeasure("the portal did not listen in time")


def _request(port: int, token: str) -> float:
    """The seconds of one request."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", PAGE, headers={"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == 200, response.status
    return time.perf_counter() - began


def _bare_processor_seconds(home: Home, statements: Statements, clients: int, each: int) -> float:
    [path] = [p for p in home.snapshots.glob("*.duckdb") if _has_tenant(p)]
    with connect(path, read_only=True) as connection:

        def one_client(number: int) -> None:
            cursor = connection.cursor()
            for _ in range(each):
                for statement, parameters in statements:
                    cursor.execute(statement, parameters).fetchall()

        one_client(0)
        before = _processor_seconds(os.getpid())
        _run_at_once(clients, one_client)
        return _processor_seconds(os.getpid()) - before


def _has_tenant(path: Path) -> bool:
    """Whether this is the tenant's file: the provider's has the table of findings."""
    with connect(path, read_only=True) as connection:
        tables = connection.execute("select table_name from duckdb_tables()").fetchall()
    return ("findings",) not in tables


def _run_at_once(clients: int, one_client: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(clients) as pool:
        for future in [pool.submit(one_client, number) for number in range(clients)]:
            future.result()


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    for row in measure():
        print(row.line())
