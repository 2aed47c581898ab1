"""A trace of pods by lifecycle and by samples at several intervals: the pipeline and the arithmetic
of the trace agree, pod by pod.

Put here: a small random trace through the whole pipeline, and the page's table from the real trace.
Not here: the real trace through the whole pipeline (`python -m tests.sampled_trace FOLDER`).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from fake_gpu.scenario.trace import TraceRow
from fake_gpu.scenario.trace_scenario import scenario_of_trace
from tests import sampled_trace as trace

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "why-five-minute-samples-mislead.md"
MIDNIGHT = 1_790_812_800  # 2026-10-01T00:00:00Z
HOURS = 3
PODS = 50
SEED = 7
SAMPLED = (15, 300)  # seconds; of the four on the page


def drawn() -> list[TraceRow]:
    """Mostly short pods, as in the real trace: every third runs for less than five minutes."""
    chance = random.Random(SEED)
    rows = []
    for number in range(PODS):
        started = MIDNIGHT + chance.randrange((HOURS - 1) * 3600)
        seconds = min(int(chance.lognormvariate(6.4, 1.8)) + 1, MIDNIGHT + HOURS * 3600 - started)
        rows.append(
            TraceRow(
                cluster="drawn", namespace=f"team-{number % 3}", pod=f"pod-{number}", uid="",
                node="", gpu_product="", resource="nvidia.com/gpu",
                count=chance.choice((1, 1, 2)), created_at=started, scheduled_at=started,
                started_at=started, finished_at=started + seconds,
                phase=chance.choice(("Running", "Succeeded", "Failed")), owner_kind="",
                owner_name="",
            )
        )  # fmt: skip
    return rows


def lives_of(rows: list[TraceRow]) -> list[trace.Life]:
    return [trace.Life(r.pod, r.started_at or 0, r.finished_at or 0, 1000 * r.count) for r in rows]


@pytest.mark.deep
def test_each_pod_ends_with_its_lifecycle_or_its_last_sample(tmp_path: Path) -> None:
    rows = drawn()
    scenario, lives = scenario_of_trace(rows, "drawn"), lives_of(rows)
    fleets = {trace.WATCHED: trace.watched(scenario, 300)}
    for interval in SAMPLED:
        fleets[f"every-{interval}s"] = trace.sampled(scenario, interval)
    counted = trace.play(tmp_path, fleets, ["2026-10"])
    trace.compare(lives, fleets, counted)
    assert counted[trace.WATCHED].thousandth_seconds == trace.by_lifecycle(lives)
    assert len(counted["every-300s"].seconds) < len(counted["every-15s"].seconds)


@pytest.mark.deep
def test_the_page_has_the_results_of_the_real_trace() -> None:
    folder = Path(os.environ.get("GPU_LEDGER_OPENB") or ROOT.parent / "shared" / "data" / "openb")
    if not folder.is_dir() and not os.environ.get("CI"):
        pytest.skip(f"{folder} is missing: the trace is not part of the repository")
    lives = trace.openb_pods(folder)
    scenario = trace.openb_on_its_nodes(folder)
    fleets = {f"every-{i}s": trace.sampled(scenario, i) for i in trace.INTERVALS}
    page = PAGE.read_text(encoding="utf-8")
    assert [row for row in trace.rows_of_page(lives, fleets) if row not in page] == []
    assert f"**{trace.by_lifecycle(lives) / 3_600_000:,.3f} GPU-hours**" in page
