"""Series of a day under one numbering, and derived files of another layout.

Put here: keys of series in derived files, the separate column of a pod's UID, other layouts.
Not here: kills while a day is compacted (`test_landing_compaction`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domain.clock import StoppedClock
from domain.interval import HOUR, Interval
from ingestion.evidence.landing import Landing
from ingestion.rebuild import compact_settled, rebuild, repair_runs
from ingestion.thanos.day_numbering import renumber_series
from ingestion.thanos.pull import pull_hours
from tests.derived_rows import rows_landed
from tests.samples_by_hand import CLUSTER, TEN, Form, Server, every_ten_minutes, matrix
from warehouse.derived_files import DerivedFolder
from warehouse.store import FolderStore

UID = "0b9b7a0e-1111-4222-8333-444455556666"
LATER = TEN + 90 * HOUR


def pulled(tmp_path: Path, *series: dict[str, str], hours: int = 1) -> tuple[Landing, Path]:
    """Pull series with samples during all hours, hour by hour."""

    def answer(form: Form) -> Any:
        if "[" not in form["query"] or "_over_time" in form["query"]:
            return matrix()
        first = int(form["time"]) - 600 - 3600
        asked = [one for one in series if one["__name__"] in form["query"]]
        return matrix(*((one, every_ten_minutes("1", first)) for one in asked))

    landing = Landing(FolderStore(tmp_path / "landing"))
    for number in range(hours):
        window = Interval(TEN + number * HOUR, TEN + (number + 1) * HOUR)
        client = Server(answer).client()
        pull_hours(CLUSTER, window, landing, tmp_path / "runs", StoppedClock(LATER), client)
    return landing, tmp_path / "runs"


def stored(runs: Path, kind: str) -> list[dict[str, Any]]:
    paths = sorted(runs.rglob(f"*.{kind}.4.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def info(**labels: str) -> dict[str, str]:
    return {"__name__": "kube_pod_info", **labels}


@pytest.mark.parametrize(
    ("labels", "in_columns"),
    [
        ({"uid": UID, "pod": "a", "node": "n"}, True),
        ({"uid": UID}, True),
        ({"uid": UID.upper(), "pod": "a"}, False),  # it would be restored in lower case
        ({"uid": "", "pod": "a"}, False),
        ({"uid": UID + "\n", "pod": "a"}, False),
        ({"pod": "a"}, False),
    ],
)
def test_a_valid_uid_takes_sixteen_bytes_and_every_label_is_restored(
    tmp_path: Path, labels: dict[str, str], in_columns: bool
) -> None:
    landing, runs = pulled(tmp_path, info(**labels))
    [row] = stored(runs, "series")
    assert (row["uid"] is not None) is in_columns
    assert ("uid" in dict(row["labels"])) is ("uid" in labels and not in_columns)
    [run] = rows_landed(landing, runs, "c1", "runs")
    assert dict(run["labels"]) == labels


def test_files_number_their_series_and_a_day_has_one_numbering(tmp_path: Path) -> None:
    landing, runs = pulled(tmp_path, info(uid=UID, pod="a"), info(uid="", pod="b"), hours=3)
    first, second, third = (attempt.sequence << 32 for attempt in landing.attempts())
    keys = sorted(row["series_key"] for row in stored(runs, "series"))
    assert keys == [first, first + 1, second, second + 1, third, third + 1]
    assert compact_settled(landing, runs, LATER) == 1
    assert [row["series_key"] for row in stored(runs, "series")] == [first, first + 1]
    assert [row["series_key"] for row in stored(runs, "runs")] == [first] * 3 + [first + 1] * 3


def day_of(*series: tuple[str | None, dict[str, str]]) -> dict[str, pa.Table]:
    """Tables of a day: series with a pod's name and labels, and one run for each."""
    keys = [(4 << 32) + place for place in range(len(series))]
    column = {
        "attempt_id": ["x"] * len(keys),
        "series_key": keys,
        "hour_started_at": [0] * len(keys),
    }
    labels = pa.array([sorted(of.items()) for _, of in series], pa.map_(pa.string(), pa.string()))
    return {
        "series": pa.table(
            {
                "series_key": keys,
                "metric": ["m"] * len(keys),
                "uid": pa.array([None] * len(keys), pa.binary(16)),
                "pod": pa.array([pod for pod, _ in series], pa.string()),
                "labels": labels,
            }
        ),
        "runs": pa.table(
            {**column, "first_offset_ms": list(range(len(keys))), "sample_value": ["1"] * len(keys)}
        ),
        "telemetry": pa.table(column),
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((None, {"a": "1", "b": "2"}), (None, {"a": "1b", "": "2"})),
        ((None, {"a": "x", "b": ""}), (None, {"a": "", "b": "x"})),
        ((None, {"a": "þÿ"}), (None, {"a": "þ", "b": "ÿ"})),
        (("p", {}), (None, {"p": ""})),
        (("p", {"a": "1"}), ("p", {"a": "2"})),
    ],
)
def test_series_with_any_difference_have_separate_numbers(
    one: tuple[str | None, dict[str, str]], other: tuple[str | None, dict[str, str]]
) -> None:
    tables = renumber_series(day_of(one, other, one))
    assert tables["series"].num_rows == 2
    keys = {
        row["first_offset_ms"]: row["series_key"] - (4 << 32) for row in tables["runs"].to_pylist()
    }
    assert keys[0] == keys[2] != keys[1]


def test_files_of_another_layout_are_decoded_again_from_the_landing(tmp_path: Path) -> None:
    landing, runs = pulled(tmp_path, info(uid=UID, pod="a"), hours=2)
    before = rows_landed(landing, runs, "c1", "runs")
    compact_settled(landing, runs, LATER)
    folder = runs / "thanos/c1"
    for path in sorted(folder.iterdir()):  # in the layout of the version before
        path.rename(path.with_name(path.name.replace(".4.", ".3.")))
    assert DerivedFolder(folder).present() == set()
    assert repair_runs(landing, runs) == 2
    assert rows_landed(landing, runs, "c1", "runs") == before
    assert [path.name for path in folder.iterdir() if ".4." not in path.name] == []
    rebuild(landing, runs)
    assert rows_landed(landing, runs, "c1", "runs") == before
