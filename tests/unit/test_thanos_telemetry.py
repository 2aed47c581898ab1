"""Hourly telemetry: the selected replica, missing values, and the queries themselves.

Put here: rows of device-hours calculated by hand. Not here: pulls (`test_thanos_pull`).
"""

from __future__ import annotations

import itertools
import math
import random
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from domain.interval import HOUR, Interval
from fake_gpu.exporters.dcgm import RENAMED
from ingestion.metric_catalogue import TELEMETRY_ENTRIES
from ingestion.thanos.decode import HOUR_MS
from ingestion.thanos.response import RawSeries
from ingestion.thanos.sample_columns import MalformedSeries
from ingestion.thanos.telemetry import (
    FunctionResponse,
    device_hours,
    function_response,
    query_name,
    range_form,
    readings_of,
    telemetry_query,
)

TEN = datetime(2026, 10, 1, 10, tzinfo=UTC)
ELEVEN_SECONDS = 1_790_852_400  # 2026-10-01T11:00:00Z
WINDOW = Interval(TEN, TEN + 2 * HOUR)
AVG, MAX, COUNT = "avg_over_time", "max_over_time", "count_over_time"


def series(labels: dict[str, str], *values: str, at: int = ELEVEN_SECONDS) -> RawSeries:
    pairs = [[at + 3600 * n, value] for n, value in enumerate(values)]
    encode = msgspec.json.encode
    return RawSeries(metric=msgspec.Raw(encode(labels)), values=msgspec.Raw(encode(pairs)))


def device_rows(*answers: tuple[str, RawSeries]) -> list[tuple[int, float | None, float | None]]:
    grouped = [FunctionResponse("util", function, [one]) for function, one in answers]
    rows = device_hours(grouped, ["replica"], WINDOW)
    return [(row.sample_count, row.average_value, row.maximum_value) for row in rows]


GPU = {"gpu": "0"}


def test_a_value_evaluated_at_the_end_of_an_hour_is_of_that_hour() -> None:
    rows = device_hours(
        [FunctionResponse("util", AVG, [series(GPU, "10", "20", "30")])], [], WINDOW
    )
    hours = [(row.hour_ms // 1000 - ELEVEN_SECONDS, row.average_value) for row in rows]
    assert hours == [(-3600, 10.0), (0, 20.0)]  # the third hour is not in the window


def test_three_functions_become_one_row() -> None:
    answers = ((AVG, series(GPU, "41.5")), (MAX, series(GPU, "97")), (COUNT, series(GPU, "118")))
    assert device_rows(*answers) == [(118, 41.5, 97.0)]


def test_the_replica_with_most_samples_counts_and_the_maximum_is_of_all() -> None:
    left, right = GPU | {"replica": "0"}, GPU | {"replica": "1"}
    assert device_rows(
        (AVG, series(left, "10")),
        (AVG, series(right, "20")),
        (MAX, series(left, "99")),
        (MAX, series(right, "50")),
        (COUNT, series(left, "60")),
        (COUNT, series(right, "120")),
    ) == [(120, 20.0, 99.0)]


Said = dict[tuple[str, str, int, str], str]  # card, replica, hour, function


def by_hand(said: Said, card: str, hour: int) -> tuple[int, float | None, float | None]:
    """One card's hour: the values of the replica with most samples, and the maximum of all."""
    there = sorted({replica for c, replica, h, _ in said if (c, h) == (card, hour)})
    numbers = {
        (replica, function): float(said.get((card, replica, hour, function), "nan"))
        for replica in there
        for function in (AVG, MAX, COUNT)
    }
    counts = {r: 0 if math.isnan(numbers[r, COUNT]) else int(numbers[r, COUNT]) for r in there}
    fullest = max(there, key=lambda replica: (counts[replica], replica))
    average = numbers[fullest, AVG]
    maxima = [numbers[r, MAX] for r in there if math.isfinite(numbers[r, MAX])]
    return counts[fullest], average if math.isfinite(average) else None, max(maxima, default=None)


@pytest.mark.parametrize("seed", range(20))
def test_any_mixture_of_replicas_and_hours_is_merged_as_by_hand(
    seed: int,
) -> None:
    chance = random.Random(seed)
    said: Said = {}
    answers = []
    for function in (AVG, MAX, COUNT):
        device_rows = []
        for card, replica in itertools.product("ab", "012"):
            start = chance.randrange(2)
            words = chance.choices(
                ["0", "7", "8.5", "NaN", "+Inf"], k=chance.randrange(1, 3 - start)
            )
            if chance.random() < 0.3:
                continue
            if function == COUNT:
                words = [chance.choice(["0", "60", "120"]) for _ in words]
            for hour, word in enumerate(words, start):
                said[card, replica, hour, function] = word
            labels = {"gpu": card, "replica": replica}
            device_rows.append(series(labels, *words, at=ELEVEN_SECONDS + 3600 * start))
        chance.shuffle(device_rows)
        answers.append(FunctionResponse("util", function, device_rows))
    rows = device_hours(answers, ["replica"], WINDOW)
    known = {
        (row.series.labels["gpu"], row.hour_ms // HOUR_MS - ELEVEN_SECONDS // 3600 + 1): (
            row.sample_count,
            row.average_value,
            row.maximum_value,
        )
        for row in rows
    }
    expected = {
        (card, hour): by_hand(said, card, hour) for card, hour in {(c, h) for c, _, h, _ in said}
    }
    assert known == expected
    assert len(rows) == len(known)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_value_that_is_no_number_is_missing_and_not_zero(value: str) -> None:
    assert device_rows((AVG, series(GPU, value)), (COUNT, series(GPU, "3"))) == [(3, None, None)]


def test_a_value_with_an_invalid_text_is_refused() -> None:
    with pytest.raises(MalformedSeries):
        device_rows((AVG, series(GPU, "many")))


def test_each_metric_of_a_union_has_its_name() -> None:
    both = [
        series(GPU | {"gpu_ledger_metric": "util"}, "1"),
        series(GPU | {"gpu_ledger_metric": "power"}, "2"),
    ]
    rows = device_hours([function_response("*:avg_over_time", both)], [], WINDOW)
    assert sorted((row.series.metric, row.average_value) for row in rows) == [
        ("power", 2.0),
        ("util", 1.0),
    ]
    assert all(row.series.labels == GPU for row in rows)


def test_a_series_has_one_name_alone_or_in_a_union() -> None:
    alone = device_hours([function_response("util:avg_over_time", [series(GPU, "1")])], [], WINDOW)
    labelled = series(GPU | {"gpu_ledger_metric": "util"}, "1")
    union = device_hours([function_response("*:avg_over_time", [labelled])], [], WINDOW)
    assert list(alone) == list(union)


def test_the_queries_are_whole_hours_on_every_server() -> None:
    assert telemetry_query(AVG, {"a": "a{}"}) == "avg_over_time(a{}[1h] offset 1ms)"
    assert telemetry_query(MAX, {"a": "a{}", "b": "b{}"}) == (
        'label_replace(max_over_time(a{}[1h] offset 1ms),"gpu_ledger_metric","a","","")'
        ' or label_replace(max_over_time(b{}[1h] offset 1ms),"gpu_ledger_metric","b","","")'
    )
    form = range_form("q", WINDOW)
    assert (form["start"], form["end"], form["step"]) == (
        str(ELEVEN_SECONDS),
        str(ELEVEN_SECONDS + 3600),
        "3600",
    )


def test_a_query_is_named_by_its_metric_or_as_a_union() -> None:
    assert query_name(AVG, ["a"]) == "a:avg_over_time"
    assert query_name(AVG, ["a", "b"]) == "*:avg_over_time"


# --- names and units -----------------------------------------------------------------------------

CARD = {"gpu": "0", "UUID": "GPU-1"}
INSTANCE = CARD | {"GPU_I_ID": "7", "GPU_I_PROFILE": "1g.5gb"}
OWN = {"gpu": "1", "uuid": "0x1", "partition": "1"}
FIRST, SECOND = ({"gpu_id": "0", "gpu_partition_id": text} for text in "01")


@pytest.mark.parametrize(
    ("metric", "labels", "value", "expected"),
    [
        # 37 %, 20 GiB and 250 W, before and since DCGM 4.7.
        ("DCGM_FI_DEV_GPU_UTIL", CARD, "37", ("card_use", 0.37)),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", CARD, "0.37", ("card_use", 0.37)),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", CARD, "37", ("memory_traffic", 0.37)),
        ("DCGM_FI_DEV_MEMORY_UTIL_RATIO", CARD, "0.37", ("memory_traffic", 0.37)),
        ("DCGM_FI_DEV_FB_USED", CARD, "20480", ("memory_used", 20480)),
        ("DCGM_FI_DEV_FB_USED_BYTES", CARD, "21474836480", ("memory_used", 20480)),
        ("DCGM_FI_DEV_POWER_USAGE", CARD, "250", ("power", 250)),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", CARD, "250", ("power", 250)),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", INSTANCE, "0.37", ("use", 0.37)),
        ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", INSTANCE, "0.37", ("use", 0.37)),
        # A percentage under the name of a ratio, and "not supported".
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", CARD, "37", ("", 37)),
        ("gpu_gfx_activity", FIRST, "65535", ("", 65535)),
        # Values that these devices cannot measure, which old exporters write as 0.
        ("DCGM_FI_DEV_GPU_UTIL", INSTANCE, "0", ("", 0)),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", INSTANCE, "0", ("", 0)),
        ("gpu_gfx_activity", SECOND, "0", ("", 0)),
        ("gpu_package_power", SECOND, "0", ("", 0)),
        # Values that they can measure.
        ("gpu_gfx_activity", FIRST, "0", ("card_use", 0)),
        ("gpu_used_vram", SECOND, "512", ("memory_used", 512)),
        # The AMD exporter of this project.
        ("amd_gpu_utilization_percent", OWN, "37", ("card_use", 0.37)),
        ("amd_gpu_memory_activity_percent", OWN, "37", ("memory_traffic", 0.37)),
        ("amd_gpu_memory_used_bytes", OWN, "21474836480", ("memory_used", 20480)),
        ("amd_gpu_power_watts", OWN, "250", ("power", 250)),
        ("amd_gpu_temperature_celsius", OWN, "61", ("temperature", 61)),
        ("gpu_junction_temperature", FIRST, "61", ("temperature", 61)),
        ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", CARD, "61", ("temperature", 61)),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", CARD, "1048576", ("pcie_received", 1048576)),
        ("DCGM_FI_PROF_NVLINK_TX_BYTES", INSTANCE, "7", ("nvlink_sent", 7)),
        # Fields that no reading is made of, and an unknown name.
        ("DCGM_FI_DEV_ENC_UTIL_RATIO", CARD, "0.5", ("", 0.5)),
        ("DCGM_FI_DEV_GPU_UTIL_PERMILLE", CARD, "370", ("", 370)),
    ],
)
def test_a_reading_has_one_name_and_unit_for_every_exporter(
    metric: str, labels: dict[str, str], value: str, expected: tuple[str, float]
) -> None:
    asked = [FunctionResponse(metric, function, [series(labels, value)]) for function in (AVG, MAX)]
    rows = device_hours(asked, [], WINDOW)
    [one] = rows
    readings = readings_of(rows)
    assert one.series.metric == metric
    assert (readings.names[readings.name_index[0]], float(readings.average_value[0])) == expected
    assert float(readings.maximum_value[0]) == expected[1]


def test_every_pair_of_names_is_a_field_that_dcgm_renamed() -> None:
    pairs = {
        entry.replaces.removeprefix("DCGM_FI_"): entry.metric.removeprefix("DCGM_FI_")
        for entry in TELEMETRY_ENTRIES
        if entry.replaces
    }
    assert pairs.items() <= {before: since.name for before, since in RENAMED.items()}.items()
    asked = {entry.metric.removeprefix("DCGM_FI_") for entry in TELEMETRY_ENTRIES}
    assert {name for name in asked & RENAMED.keys() if name not in pairs} == set()


def test_every_metric_without_a_reading_has_a_reader() -> None:
    """Facts about health read it by its name; video engines are read by the idle pruner."""
    models = Path(__file__).parents[2] / "dbt" / "models"
    text = "".join(path.read_text(encoding="utf-8") for path in models.rglob("*.sql"))
    unread = [e.metric for e in TELEMETRY_ENTRIES if not e.reading and e.metric not in text]
    kept = ("scrape_samples_scraped", "_ENC_UTIL", "_DEC_UTIL", "gpu_operator_")
    assert [name for name in unread if not any(one in name for one in kept)] == []
