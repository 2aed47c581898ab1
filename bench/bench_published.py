"""P6: a tenant's period to date on the published file, against one scan of the month's samples.

Put here: publishing the facts of a fleet, and the queries of a tenant's page.
Not here: calculating them (`bench_facts`).

    python -m bench P6

The scan covers the whole month of 10,000 GPUs at 5 minutes. The facts are those of a small part of
that fleet: a period to date has one row per tenant, class and profile, so the number of pods does
not change its size.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.bench_facts import build_month, scan_seconds
from bench.measurement import Measurement
from bench.month_of_a_fleet import PERIOD, TENANTS, Month, create_lives, write_samples
from warehouse.about import About
from warehouse.connection import connect, connected
from warehouse.home import Home
from warehouse.publish import publish
from warehouse.switch import switch_in

WHOLE_NODES = 1250
SMALL_NODES = 25
LIMIT = 0.05
ASKED = 200
STATEMENT = """
    select gpu_class, mig_profile, billable_device_seconds, cost_nanos
    from fct_tenant_periods
    where billing_period = $period and tenant = $tenant
    order by all
"""


def measure() -> list[Measurement]:
    folder = Path(tempfile.mkdtemp(prefix="bench_published_"))
    try:
        with connected(":memory:") as connection:
            create_lives(connection, Month(WHOLE_NODES))
            samples = write_samples(connection, Month(WHOLE_NODES), folder / "samples.parquet")
        scan = scan_seconds(folder / "samples.parquet")
        (folder / "build").mkdir()
        build_month(folder / "build", Month(SMALL_NODES))
        home = Home.create(folder / "home")
        switch_in(home, folder / "build" / "facts.duckdb", PERIOD)
        now = datetime.now(UTC)
        published = publish(home, About(now, now, "0", "", "", 0))
        with connect(published.path, read_only=True) as connection:
            took = []
            for number in range(ASKED):
                asked = {"period": PERIOD.name, "tenant": f"team-{number % TENANTS}"}
                began = time.perf_counter()
                rows = connection.execute(STATEMENT, asked).fetchall()
                took.append(time.perf_counter() - began)
                assert rows
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    typical = sorted(took)[len(took) // 2]
    return [
        Measurement("P6", "a tenant's period to date against one scan of the samples",
                    typical / scan, LIMIT, "at most",
                    f"{typical * 1000:.2f} ms, the median of {ASKED} queries of {TENANTS}"
                    f" tenants, against {scan * 1000:.0f} ms for {samples:,} samples"),
    ]  # fmt: skip


if __name__ == "__main__":
    for row in measure():
        print(row.line())
