"""The page with the result of each fault: its counts, and that it contains each fault."""

from __future__ import annotations

from collections import Counter
from datetime import date

from tests.simulated import TROUBLES
from tests.simulation_page import HARMLESS, PAGE, REPAIRED, Fate, page
from tests.written_pages import DOCS


def cells(text: str, kind: str) -> list[str]:
    [row] = [line for line in text.splitlines() if line.startswith(f"| `{kind}` ")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_row_counts_fired_caught_and_harmless() -> None:
    fates = [
        Fate("store_vanishes", ("A01★",), 208, Counter({"GAP-002": 1, "GAP-005": 13})),
        Fate("store_vanishes", ("A01★",), 100),
        Fate("crash_loop", ("B07",), 9),
        Fate("metric_renamed", ("A02", "A23"), None, Counter({"GAP-007": 1})),
        Fate("watch_dropped", ("B01",), 5, Counter({"GAP-003": 2}), wrong_pod_hours=17),
    ]
    text = page(fates, [7, 8], 20, 21, date(2026, 11, 19))
    assert "`make simulate N=20` on 2026-11-19: 21 tenant-months, seeds 7 to 8." in text
    assert "Together 5 faults of 4 kinds." in text
    *counts, words = cells(text, "store_vanishes")
    assert counts == ["`store_vanishes`", "A01★", "308", "1", "1", ""]
    assert "/GAP-002.md) × 1, " in words
    assert "/GAP-005.md) × 13. " in words
    assert words.endswith(REPAIRED["store_vanishes"])
    assert cells(text, "crash_loop")[2:] == ["9", "", "", "1", HARMLESS["crash_loop"]]
    assert cells(text, "metric_renamed")[1:4] == ["A02 A23", "not counted", "1"]
    assert "17 pod-hours" in cells(text, "watch_dropped")[-1]


def test_no_fault_of_the_simulation_is_left_out_of_the_page() -> None:
    """To rewrite the page, run `make simulate`."""
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    assert [one.kind for one in TROUBLES if not cells(text, one.kind)] == []


def test_repaired_and_harmless_kinds_are_simulated() -> None:
    kinds = {trouble.kind for trouble in TROUBLES}
    assert {*REPAIRED, *HARMLESS} <= kinds
    assert not {*REPAIRED} & {*HARMLESS}
    # A fault that always has a finding needs no reason for none.
    told = {t.kind for t in TROUBLES if t.caught_as} - {t.kind for t in TROUBLES if not t.caught_as}
    assert not told & {*REPAIRED, *HARMLESS}
