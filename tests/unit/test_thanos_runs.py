"""Order, labels and row groups of the derived files of an attempt.

Put here: the files of series and of telemetry. Not here: the runs of a pull (`test_thanos_pull`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from domain.decisions import Source
from domain.interval import HOUR, Interval
from ingestion.thanos.decode import DecodeWindow, Runs, SeriesDictionary, decode_runs
from ingestion.thanos.response import RawSeries, read_matrix_body
from ingestion.thanos.runs import write_runs
from ingestion.thanos.telemetry import FUNCTIONS, FunctionResponse, device_hours
from warehouse.derived_files import DerivedFolder
from warehouse.manifest import AttemptDraft, Sampling

TEN = datetime(2026, 10, 1, 10, tzinfo=UTC)
LOOK = DecodeWindow.at(Interval(TEN, TEN + HOUR), 300)
UID = "00000000-0000-4000-8000-00000000000{}"


def runs(*labels: dict[str, str]) -> Runs:
    """One sample of each series."""
    values = [[TEN.timestamp() + 60, "1"]]
    result = [{"metric": one, "values": values} for one in labels]
    body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    matrix = read_matrix_body(json.dumps(body).encode())
    return decode_runs(matrix.series, SeriesDictionary(()), LOOK)


def pod(metric: str, number: int) -> dict[str, str]:
    return {"__name__": metric, "pod": f"p{number}", "uid": UID.format(number), "node": "a"}


PARTS = [
    runs({"__name__": "up", "job": "b"}, {"__name__": "up", "job": "a"}),
    runs(pod("phase", 2), pod("info", 3), pod("phase", 1)),
    runs(pod("phase", 3), pod("phase", 1)),  # the parts of a split query
    runs(pod("kube_pod_labels", 1) | {"label_app": "x", "label_no": "y"}),
]
ORDER = ["info p3", "kube_pod_labels p1", "phase p1", "phase p2", "phase p3", "up", "up"]


def test_series_are_written_once_ordered_by_metric_and_pod(tmp_path: Path) -> None:
    window = Interval(TEN, TEN + HOUR)
    draft = AttemptDraft(
        *("c1", Source.THANOS, TEN + HOUR, TEN + HOUR, window, "1", Sampling(300, 30)),
        answers=(),
        hours=(),
    )
    attempt = draft.at(1, "")
    write_runs(tmp_path, attempt, PARTS, device_hours([], (), window), ["app"])
    folder = DerivedFolder.of(tmp_path, "thanos", "c1")
    rows = pq.ParquetFile(folder.loose(attempt.attempt_id, "series")).read().to_pylist()
    assert [f"{row['metric']} {row['pod'] or ''}".strip() for row in rows] == ORDER
    labels = [dict(row["labels"]) for row in rows]
    assert labels[1] == {"node": "a", "label_app": "x"}  # label_no is not in the allow-list
    assert labels[2:5] == [{"node": "a"}] * 3
    assert sorted(row["job"] for row in labels[5:]) == ["a", "b"]


def test_telemetry_in_several_row_groups_has_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row group is read under the readings of its own series."""
    monkeypatch.setattr("ingestion.thanos.runs.TELEMETRY_ROWS_AT_ONCE", 1)
    window = Interval(TEN, TEN + HOUR)
    values = {"DCGM_FI_DEV_GPU_UTIL": "50", "DCGM_FI_DEV_SM_CLOCK": "1410"}
    pairs = {text: f'[[{(TEN + HOUR).timestamp():.0f},"{text}"]]' for text in values.values()}
    rows = device_hours(
        [
            FunctionResponse(
                metric,
                function,
                [
                    RawSeries(
                        metric=msgspec.Raw(f'{{"gpu":"{gpu}"}}'.encode()),
                        values=msgspec.Raw(pairs[text].encode()),
                    )
                    for gpu in (0, 1)
                ],
            )
            for metric, text in values.items()
            for function in FUNCTIONS
        ],
        (),
        window,
    )
    draft = AttemptDraft(
        *("c1", Source.THANOS, TEN + HOUR, TEN + HOUR, window, "1", Sampling(300, 30)),
        answers=(),
        hours=(),
    )
    attempt = draft.at(1, "")
    write_runs(tmp_path, attempt, [], rows, [])
    folder = DerivedFolder.of(tmp_path, "thanos", "c1")
    file = pq.ParquetFile(folder.loose(attempt.attempt_id, "telemetry"))
    assert file.metadata.num_row_groups == 4
    found = [
        (row["metric"], row["reading"], row["average_value"]) for row in file.read().to_pylist()
    ]
    assert (
        found
        == [("DCGM_FI_DEV_GPU_UTIL", "card_use", 0.5)] * 2
        + [("DCGM_FI_DEV_SM_CLOCK", "", 1410.0)] * 2
    )
