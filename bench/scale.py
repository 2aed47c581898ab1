"""The cost of refreshing a month, by the size of the fleet and by engine.

Put here: one refresh of a home with a given number of GPUs, in a process of its own.
Not here: the home (`home_of_a_month`), or goals; `docs/explanation/scale.md` has the results.

    python -m bench.scale GPUS [duckdb | MASTER]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.home_of_a_month import AFTER_GRACE, create_home
from bench.month_of_a_fleet import CARDS, PERIOD, Month
from warehouse.connection import connected

TICKS, PAGE_MIB = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE") / 1024**2
SAMPLED_SECONDS = 0.25


def main() -> None:
    gpus, engine = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "duckdb"
    with tempfile.TemporaryDirectory(prefix="bench_scale_") as folder:
        home = create_home(Path(folder) / "home", Month(nodes=-(-gpus // CARDS)))
        if engine != "duckdb":
            with home.config_path.open("a", encoding="utf-8") as config:
                config.write(f'\n[engine]\nkind = "spark"\nmaster = "{engine}"\n')
        runs = sum(path.stat().st_size for path in home.runs.rglob("*") if path.is_file())
        load, cpus = os.getloadavg()[0], os.cpu_count()
        wall, processor, memory = refreshed(home.path)
        with connected(home.build / f"{PERIOD.name}.duckdb", read_only=True) as connection:
            counts = "select count(*), (select count(*) from marts.fct_pod_hours) "
            pods, hours = connection.execute(f"{counts} from marts.fct_pod_periods").fetchall()[0]
        facts = json.loads((home.build / f"{PERIOD.name}.built.json").read_text())["facts_sha256"]
        size = home.warehouse_path.stat().st_size
        snapshots = [path.stat().st_size for path in home.snapshots.glob("*.duckdb")]
    print(
        f"{gpus} GPUs, {engine}: {pods} pods, {hours} pod-hours, {runs / 1e6:.1f} MB of runs; "
        f"{wall:.0f} s, {processor:.0f} s of processor, {memory:.0f} MiB at most, warehouse "
        f"{size / 1e6:.0f} MB, {len(snapshots)} snapshots of {sum(snapshots) / 1e6:.0f} MB, the "
        f"largest of {max(snapshots, default=0) / 1e6:.0f} MB; load {load:.1f} and "
        f"{os.getloadavg()[0]:.1f} on {cpus} processors; facts {facts[:12]}"
    )


def refreshed(home: Path) -> tuple[float, float, float]:
    """Seconds, seconds of the processor and most MiB of a refresh and all that it starts."""
    program = Path(sys.executable).with_name("gpu-ledger")
    command = [program, "refresh", "--period", PERIOD.name, "--home", home]
    environment = os.environ | {"GPU_LEDGER_NOW": AFTER_GRACE}
    began = time.perf_counter()
    seconds: dict[int, float] = {}
    most = 0.0
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        while process.poll() is None:
            used = _used_by_session(process.pid)
            seconds |= {pid: ticks for pid, (ticks, _) in used.items()}
            most = max(most, sum(mib for _, mib in used.values()))
            time.sleep(SAMPLED_SECONDS)
    if process.returncode:
        raise SystemExit(f"refresh ended with {process.returncode}")
    return time.perf_counter() - began, sum(seconds.values()), most


def _used_by_session(session: int) -> dict[int, tuple[float, float]]:
    """Seconds of the processor and MiB of each process that a session has now."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(stat[3]) == session:
            used = (int(stat[11]) + int(stat[12])) / TICKS
            found[int(folder.name)] = used, int(stat[21]) * PAGE_MIB
    return found


if __name__ == "__main__":
    main()
