"""Every speed goal in one table: `make bench`, or `python -m bench P2 P4` for some.

Put here: the goals of each benchmark, the table, and the page of results.
Not here: measuring (the `bench_*` modules), or the fields of a row (`measurement`).

Each benchmark runs in a process of its own, so that its memory is measured alone. The last result
of each goal is stored in `measured.json`. docs/explanation/performance.md is written from that
file, so a goal that was measured alone appears beside the others.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measurement import CannotMeasure, Measurement

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "performance.md"
KEPT = Path(__file__).with_name("measured.json")
GOALS = {
    "P1": "An hour of a large fleet fetched, decoded and stored, against `curl -o /dev/null`",
    "P2": "Decoding the body of an allocation response to runs, against parsing the same JSON",
    "P3": "A month of 10,000 GPUs counted from intervals, against one scan of its samples",
    "P4": "Ten times finer samples, against coarse ones",
    "P5": "One more hour on the last day of the month, against one in its middle",
    "real month": "A month of 3,416 GPUs whose pods run all month: refresh, check, dry close",
    "telemetry": "Three days with the telemetry of 3,256 cards: memory of pull and refresh",
    "P6": "A tenant's period to date on the published file, against the scan of P3",
    "P7": "The month's facts, against PromQL on a real Prometheus with the same data",
    "P8": "Bytes of a month's runs and dimensions, against the Prometheus that holds its samples",
    "P9": "A month's backfill through Dagster, against the same pulls without it",
    "demo month": "A month of the demo's three clusters, queried and landed",
    "collector": "An hour's complete list of 10,000 pods, against parsing its JSON",
    "simulated fleet": "Simulating a large fleet, against computing only its random hashes",
    "idle pruner": "A pass over 10,000 GPU pods, against its queries alone",
    "portal": "The page of a tenant over a month of 10,000 GPUs, against its queries alone",
    "amd exporter": "CPU, memory and response size of the AMD exporter on a node, with its tools",
}
BENCHES = {
    "bench_pull": ("P1",),
    "bench_decode": ("P2",),
    "bench_facts": ("P3", "P4", "P5"),
    "bench_real_month": ("real month",),
    "bench_telemetry": ("telemetry",),
    "bench_published": ("P6",),
    "bench_promql": ("P7",),
    "bench_storage": ("P8",),
    "bench_backfill": ("P9",),
    "bench_month": ("demo month",),
    "bench_collector": ("collector",),
    "bench_fake_fleet": ("simulated fleet",),
    "bench_amd_exporter": ("amd exporter",),
    "bench_idle_pruner": ("idle pruner",),
    "bench_portal": ("portal",),
}
# A benchmark that takes longer is stopped; its goal counts as not measured.
BENCH_SECONDS_LIMIT = 1200
DISTRIBUTIONS = ("duckdb", "polars", "pyarrow", "dbt-core", "dagster", "msgspec")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one goal."""

    goal: str
    rows: tuple[Measurement, ...]
    missing: str  # the reason if it could not be measured; otherwise empty
    measured_on: str = ""  # day
    load: float = 0.0  # load of the machine at the start, in processors

    @property
    def result(self) -> str:
        if not self.rows:
            return "not measured"
        return "reached" if all(row.reached for row in self.rows) else "not reached"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("goals", nargs="*", metavar="GOAL", help=", ".join(GOALS))
    parser.add_argument("--one", metavar="MODULE", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.one:
        return _one(asked.one)
    unknown = set(asked.goals) - set(GOALS)
    if unknown:
        parser.error(f"no such goal: {', '.join(sorted(unknown))}; there are {', '.join(GOALS)}")
    wanted = asked.goals or list(GOALS)
    outcomes = []
    kept = read_kept()
    for outcome in measure(wanted):
        outcomes.append(outcome)
        print("\n".join(_lines(outcome)), flush=True)
        kept[outcome.goal] = outcome
        write_kept(kept)
    print(f"\nwritten: {PAGE}")
    return 0 if all(outcome.result == "reached" for outcome in outcomes) else 1


def read_kept() -> dict[str, Outcome]:
    """The last result of each goal."""
    if not KEPT.is_file():
        return {}
    found = {}
    for goal, kept in json.loads(KEPT.read_text(encoding="utf-8")).items():
        rows = tuple(Measurement(**row) for row in kept.pop("rows"))
        found[goal] = Outcome(goal, rows, **kept)
    return found


def write_kept(kept: Mapping[str, Outcome]) -> None:
    """Store the results, and write the page from them."""
    stored = {
        goal: {
            "measured_on": kept[goal].measured_on,
            "load": kept[goal].load,
            "missing": kept[goal].missing,
            "rows": [row.as_dict() for row in kept[goal].rows],
        }
        for goal in GOALS
        if goal in kept
    }
    KEPT.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    unknown = "it was never measured"
    PAGE.write_text(
        page([kept.get(goal) or Outcome(goal, (), unknown) for goal in GOALS]), encoding="utf-8"
    )


def measure(goals: Iterable[str]) -> Iterator[Outcome]:
    """The outcome of each goal, as soon as its benchmark ends."""
    wanted = set(goals)
    for name, measured in BENCHES.items():
        asked = [goal for goal in measured if goal in wanted]
        if not asked:
            continue
        print(f"… {name}", file=sys.stderr, flush=True)
        day, load = time.strftime("%Y-%m-%d", time.gmtime()), round(os.getloadavg()[0], 1)
        rows, missing = _run(name)
        for goal in asked:
            own = tuple(row for row in rows if row.goal == goal)
            why = "" if own else missing or f"{name} has no row for it"
            yield Outcome(goal, own, why, day, load)


def _run(name: str) -> tuple[list[Measurement], str]:
    if importlib.util.find_spec(f"bench.{name}") is None:
        return [], f"there is no bench/{name}.py yet"
    command = [sys.executable, "-m", "bench", "--one", name]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=BENCH_SECONDS_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return [], f"it took longer than {BENCH_SECONDS_LIMIT} s"
    if ran.returncode:
        last_line = (ran.stderr.strip().splitlines() or ["nothing"])[-1]
        return [], f"it ended with {ran.returncode}: {last_line}"
    answer = json.loads(ran.stdout.splitlines()[-1])
    return [Measurement(**row) for row in answer["rows"]], answer["missing"]


def _one(name: str) -> int:
    """Run one benchmark in this process; the last line of stdout is its result."""
    try:
        rows = importlib.import_module(f"bench.{name}").measure()
    except CannotMeasure as missing:
        print(json.dumps({"rows": [], "missing": str(missing)}))
        return 0
    print(json.dumps({"rows": [row.as_dict() for row in rows], "missing": ""}))
    return 0


def _lines(outcome: Outcome) -> list[str]:
    if not outcome.rows:
        return [f"{outcome.goal} not measured: {outcome.missing}"]
    return [row.line() for row in outcome.rows]


def page(outcomes: Sequence[Outcome]) -> str:
    """The page of all goals: goal, measurement and machine."""
    reached = sum(outcome.result == "reached" for outcome in outcomes)
    parts = [
        "# Performance\n",
        "`make bench` writes this page; `python -m bench GOAL…` measures some goals again. Both"
        " sides of a\nratio are measured in one run on one machine, so the ratio is also valid for"
        " other machines.\nThe load is the system load at the start of a benchmark.\n",
        f"{reached} of {len(outcomes)} goals are reached.\n",
        "| goal | quantity | measured | limit | result |",
        "|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        parts += _table_rows(outcome)
    parts += ["", "## Measurements\n"]
    for outcome in outcomes:
        parts += [f"**{outcome.goal}** {GOALS[outcome.goal]}.{_circumstances(outcome)}\n"]
        parts += [f"- {row.quantity}: {row.how}" for row in outcome.rows]
        parts += [f"- Not measured: {outcome.missing}."] if outcome.missing else []
        parts.append("")
    parts += ["## Machine\n", *(f"- {name}: {text}" for name, text in machine().items()), ""]
    return "\n".join(parts)


def _circumstances(outcome: Outcome) -> str:
    if not outcome.measured_on:
        return ""
    return f" Measured on {outcome.measured_on} at a load of {outcome.load:g}."


def _table_rows(outcome: Outcome) -> list[str]:
    if not outcome.rows:
        return [f"| {outcome.goal} | {GOALS[outcome.goal]} | – | – | **not measured** |"]
    return [
        f"| {row.goal} | {row.quantity} | {row.value:.3g} {row.unit} | {row.sense} {row.limit:g} |"
        f" {'reached' if row.reached else '**not reached**'} |"
        for row in outcome.rows
    ]


def machine() -> dict[str, str]:
    """The hardware and software of this machine."""
    found = {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') >> 30} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "libraries": ", ".join(
            f"{name} {importlib.metadata.version(name)}" for name in DISTRIBUTIONS
        ),
    }
    if shutil.which("prometheus"):
        last_line = subprocess.run(["prometheus", "--version"], capture_output=True, text=True)
        found["Prometheus"] = (last_line.stdout + last_line.stderr).split("version ")[-1].split()[0]
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else "unknown"


if __name__ == "__main__":
    sys.exit(main())
