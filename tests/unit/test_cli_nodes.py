"""What `nodes --month` says of hours whose numbers are missing, or of a part of the hour only."""

from __future__ import annotations

from orchestration.cli.nodes import left_out


def rows(*measurements: str) -> list[dict[str, object]]:
    """Two nodes in every hour: an hour counts once."""
    return [
        {"cluster_name": "east", "hour_started_at": number, "measurement": measurement}
        for number, measurement in enumerate(measurements)
        for _ in range(2)
    ]


def test_hours_without_a_number_and_hours_with_part_of_one_are_told_apart() -> None:
    assert left_out(rows("measured", "measured")) == (
        "0 hours were not measured; they have no number."
    )
    assert left_out(rows("measured", "not measured", "measured in part", "not measured")) == (
        "2 hours were not measured; they have no number. "
        "1 were measured in part: their numbers cover that part."
    )
