"""Writes the derived files of a landed attempt again, from its bytes.

Put here: reading an attempt's bodies, and decoding them as at the time of the pull.
Not here: queries (`ingestion.thanos.pull`), or the choice of attempts (`ingestion.rebuild`).

The manifest has all settings of decoding, so a changed setting changes no past hour.
"""

from __future__ import annotations

from pathlib import Path

from domain.errors import OtherVersionNeeded
from ingestion.evidence.landing import Landing
from ingestion.thanos.decode import DecodeWindow, Runs, SeriesDictionary, decode_runs
from ingestion.thanos.query_runner import METRIC_NAMES_ASK, STORES_ASK
from ingestion.thanos.response import RawSeries, read_matrix_body
from ingestion.thanos.runs import write_runs
from ingestion.thanos.sample_columns import MalformedSeries
from ingestion.thanos.telemetry import (
    DeviceHours,
    FunctionResponse,
    device_hours,
    function_response,
)
from warehouse.manifest import Attempt, Outcome, QueryResponse

NOT_DECODED = (METRIC_NAMES_ASK, STORES_ASK)
USABLE = (Outcome.OK, Outcome.WARNED)


def replay(landing: Landing, home_runs: Path, attempt: Attempt) -> None:
    """Write the runs, series and telemetry of an attempt from its landed bodies."""
    replica_labels = attempt.draft.settings.get("replica_labels", ())
    dictionary = SeriesDictionary(replica_labels)
    runs: list[Runs] = []
    telemetry: list[FunctionResponse] = []
    for answer in attempt.answers:
        if answer.outcome not in USABLE or not answer.sha256:
            continue
        if answer.ask in NOT_DECODED:
            continue
        series = _series(landing, attempt, answer)
        if ":" in answer.ask:
            telemetry.append(function_response(answer.ask, series))
        elif answer.window is not None:
            decode_window = DecodeWindow.at(
                answer.window, attempt.draft.sampling.sample_interval_seconds
            )
            runs.append(decode_runs(series, dictionary, decode_window))
    rows = _rows(telemetry, replica_labels, attempt)
    write_runs(home_runs, attempt, runs, rows, attempt.draft.settings.get("pod_labels", ()))


def _rows(
    telemetry: list[FunctionResponse], replica_labels: tuple[str, ...], attempt: Attempt
) -> DeviceHours:
    try:
        return device_hours(telemetry, replica_labels, attempt.window)
    except MalformedSeries:
        # As at the time of the pull: invalid telemetry has no rows.
        return device_hours([], (), attempt.window)


def _series(landing: Landing, attempt: Attempt, answer: QueryResponse) -> list[RawSeries]:
    matrix = read_matrix_body(landing.read_body(answer.sha256))
    if matrix.outcome is not answer.outcome:
        raise OtherVersionNeeded(
            where=f"attempt {attempt.sequence} of {attempt.cluster_id}, {answer.ask}",
            seen=f"the manifest has {answer.outcome.value}, decoding again gives "
            f"{matrix.outcome.value} ({matrix.reason})",
            why="the same bytes must always give the same usage",
            remedy="use the version of gpu-ledger named in the manifest as code_version, and "
            "report this",
        )
    return list(matrix.series)
