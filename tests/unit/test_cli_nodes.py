"""`nodes --month` and hours whose values are missing or cover only a part of the hour."""

from __future__ import annotations

from orchestration.cli.nodes import unmeasured_note


def rows(*measurements: str) -> list[dict[str, object]]:
    """Two nodes in every hour; an hour counts once."""
    return [
        {"cluster_name": "east", "hour_started_at": number, "measurement": measurement}
        for number, measurement in enumerate(measurements)
        for _ in range(2)
    ]


def test_hours_without_a_value_and_partial_hours_are_counted_separately() -> None:
    assert unmeasured_note(rows("measured", "measured")) == (
        "0 hours were not measured; they have no number."
    )
    assert unmeasured_note(
        rows("measured", "not measured", "measured in part", "not measured")
    ) == (
        "2 hours were not measured; they have no number. "
        "1 were measured in part: their numbers cover that part."
    )
