"""The columns of an attempt's series: once each, in one order, whenever they were made.

Put here: what is laid out early and what late.
Not here: files and their content (`test_thanos_pull`), or their columns (`test_columns`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from domain.interval import HOUR, Interval
from ingestion.thanos.answer import read_matrix_body
from ingestion.thanos.decode import Look, Runs, SeriesDictionary, decode_runs
from ingestion.thanos.runs import SeriesBlocks

TEN = datetime(2026, 10, 1, 10, tzinfo=UTC)
LOOK = Look.at(Interval(TEN, TEN + HOUR), 300)
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
    runs(pod("phase", 3), pod("phase", 1)),  # a question that was split
    runs(pod("kube_pod_labels", 1) | {"label_app": "x", "label_no": "y"}),
]
ORDER = ["info p3", "kube_pod_labels p1", "phase p1", "phase p2", "phase p3", "up", "up"]


@pytest.mark.parametrize("eager_series", [1, 2, 3, 1000])
def test_series_are_in_one_order_however_many_are_laid_out_at_once(eager_series: int) -> None:
    blocks = SeriesBlocks(["app"], eager_series)
    for part in PARTS:
        blocks.add([part])
    found = blocks.in_order()
    series = [one for block in found for one in block.series]
    assert [f"{one.metric} {one.pod or ''}".strip() for one in series] == ORDER
    assert blocks.counts() == [("info", 1), ("kube_pod_labels", 1), ("phase", 3), ("up", 2)]
    pods = [text for block in found for text in block.pod.to_pylist()]
    assert pods == [one.pod for one in series]
    labels = [dict(row) for block in found for row in block.labels.to_pylist()]
    assert labels[1] == {"node": "a", "label_app": "x"}  # the other one is not on the list
    assert labels[2:5] == [{"node": "a"}] * 3
    assert sorted(row["job"] for row in labels[5:]) == ["a", "b"]
