"""Writes the kept parts of a small home of this version: `python -m tests.home_of_release`.

Put here: the home from which `tests/scenarios/test_home_of_release` is upgraded. The file of a
version is written once, at its release, and never again.
Not here: its use by later versions.

Two months with one pod across their border; the first is closed, without the page of the models,
which is five megabytes.
"""

from __future__ import annotations

import tarfile
import tempfile
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path

from billing.close import close_period
from domain.billing_period import BillingPeriod
from domain.interval import HOUR, Interval
from fake_gpu.clock import epoch
from orchestration import steps
from orchestration.demo.closed_month import AFTER, watch
from orchestration.demo.demo_home import make_home
from orchestration.demo.fleet_process import serve_in_own_process
from orchestration.open_home import OpenHome
from warehouse.home import KEPT

HOMES = Path(__file__).parent / "homes"
CLOSED, OPEN = BillingPeriod("2026-10"), BillingPeriod("2026-11")
TRACE = """\
cluster,namespace,pod,uid,node,gpu_product,resource,count,created_at,scheduled_at,started_at,finished_at,phase,owner_kind,owner_name
lab,vision,train,u-1,,NVIDIA-A30,nvidia.com/gpu,1,2026-10-31T22:30:00Z,2026-10-31T22:30:00Z,2026-10-31T22:30:00Z,2026-11-01T01:15:00Z,Succeeded,Job,train
lab,vision,once,u-2,,NVIDIA-A30,nvidia.com/gpu,2,2026-10-31T21:10:00Z,2026-10-31T21:10:00Z,2026-10-31T21:10:00Z,2026-10-31T21:40:00Z,Succeeded,Job,once
"""


def make(folder: Path) -> OpenHome:
    """A home with the evidence of both months, of which the first is closed."""
    (folder / "pods.csv").write_text(TRACE)
    with serve_in_own_process(str(folder / "pods.csv")) as running:
        fleet = running.fleet
        span = Interval(epoch(fleet.started_at), epoch(fleet.ended_at))
        home = make_home(folder / "home", fleet, running.thanos_url, running.kubernetes_urls)
        opened = OpenHome(home, running.clock)
        during = Interval(running.clock.now(), span.ended_at + HOUR)
        watch(opened, running, during, lambda _: nullcontext(lambda done, total, what: None))
        running.advance_to(OPEN.ended_at + AFTER)
        steps.pull(opened, span)
        steps.refresh(opened, CLOSED)
        close_period(
            home,
            CLOSED,
            opened.decisions,
            lambda: steps.check_period(opened, CLOSED),
            opened.clock,
            dry_run=False,
        )
        return opened


def main() -> None:
    HOMES.mkdir(exist_ok=True)
    path = HOMES / f"{version('gpu-ledger')}.tar.xz"
    with tempfile.TemporaryDirectory() as folder, tarfile.open(path, "w:xz", preset=9) as archive:
        home = make(Path(folder)).home
        for name in KEPT:
            archive.add(home.path / name, name)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
