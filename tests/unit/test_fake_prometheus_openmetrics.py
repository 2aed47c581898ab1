"""Samples that are exported as OpenMetrics equal the served samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fake_gpu.clock import epoch
from fake_gpu.prometheus.language import parse_selector
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.openmetrics import EVERYTHING, write_openmetrics
from fake_gpu.prometheus.series import WindowSeries
from tests.served_samples import thanos
from tests.small_fleets import HOUR, MIDNIGHT, quiet_fleet


def test_one_file_per_day_has_every_sample_of_the_window(tmp_path: Path) -> None:
    source = thanos(quiet_fleet(), now=40 * HOUR).source
    seen: list[tuple[int, int, str]] = []
    start, end = MIDNIGHT + 22 * HOUR, MIDNIGHT + 26 * HOUR
    files = write_openmetrics(
        source, epoch(start), epoch(end), tmp_path, lambda *step: seen.append(step)
    )
    assert [file.name for file in files] == ["2026-10-01.om", "2026-10-02.om"]
    assert seen == [(0, 2, "2026-10-01"), (1, 2, "2026-10-02")]
    written: Counter[str] = Counter()
    for file in files:
        text = file.read_text()
        assert text.endswith("\n# EOF\n")
        rows = text.splitlines()[:-1]
        written.update(row.partition("{")[0] for row in rows)
    served: Counter[str] = Counter()
    for series in source.select(EVERYTHING, start * 1000, end * 1000 - 1):
        served[series.labels["__name__"]] += len(series.timestamps_ms)
    assert written == served
    assert written["up"] == 2 * 4 * 4 * 120  # replicas, targets, hours, scrapes


def test_files_written_in_parallel_are_equal(tmp_path: Path) -> None:
    source = thanos(quiet_fleet(), now=60 * HOUR).source
    times = epoch(MIDNIGHT + 20 * HOUR), epoch(MIDNIGHT + 50 * HOUR)
    seen: list[tuple[int, int, str]] = []
    few = parse_selector('{__name__=~"up|kube_pod_.*"}')

    alone = write_openmetrics(source, *times, tmp_path / "alone", matchers=few)
    apart = write_openmetrics(
        source, *times, tmp_path / "apart", lambda *step: seen.append(step), few, processes=2
    )
    assert [path.name for path in apart] == [path.name for path in alone]
    assert [path.read_bytes() for path in apart] == [path.read_bytes() for path in alone]
    assert [name for _, _, name in seen] == ["2026-10-01", "2026-10-02", "2026-10-03"]


def test_a_line_has_sorted_labels_a_value_and_milliseconds(tmp_path: Path) -> None:
    source = thanos(quiet_fleet()).source
    (file,) = write_openmetrics(source, epoch(MIDNIGHT), epoch(MIDNIGHT + 60), tmp_path)
    rows = [row for row in file.read_text().splitlines() if "kube_pod_created" in row]
    head = (
        'kube_pod_created{cluster="alpha",clusterID="11111111-aaaa-4bbb-8ccc-000000000001",'
        'container="kube-rbac-proxy-main",endpoint="https-main",job="kube-state-metrics",'
        'namespace="team-a",pod="train-5d9c-abcde",prometheus_replica="prometheus-k8s-0",'
    )
    assert rows[0].startswith(head)
    value, at = rows[0].split()[-2:]
    assert value == "1.790811e+09"  # half an hour before midnight
    assert MIDNIGHT <= float(at) < MIDNIGHT + 60


def test_only_the_selected_samples_are_written(tmp_path: Path) -> None:
    source = thanos(quiet_fleet()).source
    times = epoch(MIDNIGHT), epoch(MIDNIGHT + 60)
    wanted = parse_selector('{__name__=~"up|kube_node_info",node!="node-a"}')
    (file,) = write_openmetrics(source, *times, tmp_path, matchers=wanted)
    rows = file.read_text().splitlines()[:-1]
    assert {row.partition("{")[0] for row in rows} == {"up", "kube_node_info"}
    assert not any('node="node-a"' in row for row in rows)


class OnTheHour:
    """A series with samples exactly at every half hour."""

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[WindowSeries]:
        first = MIDNIGHT * 1000
        samples = {first + n * 1_800_000: float(n) for n in range(10)}
        return [WindowSeries.of({"__name__": "m"}, samples).clipped(start_ms, end_ms)]


def test_a_sample_on_the_hour_is_written_once(tmp_path: Path) -> None:
    (file,) = write_openmetrics(OnTheHour(), epoch(MIDNIGHT), epoch(MIDNIGHT + 2 * HOUR), tmp_path)
    assert file.read_text().splitlines() == [
        f"m 0 {MIDNIGHT}",
        f"m 1 {MIDNIGHT + 1800}",
        f"m 2 {MIDNIGHT + 3600}",
        f"m 3 {MIDNIGHT + 5400}",
        "# EOF",
    ]
