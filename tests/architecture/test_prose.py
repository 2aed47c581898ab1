"""Docstrings and comments are plain technical English; see `tests/prose.py` for the words."""

from __future__ import annotations

import pytest

from tests.prose import PERSONS_LIMIT, WHAT_LIMIT, count, files_of, texts_of

PLAIN = (
    "amd_exporter",
    "bench",
    "billing",
    "clients",
    "domain",
    "fake_gpu",
    "idle_pruner",
    "ingestion",
    "orchestration",
    "portal",
    "quality",
    "tests/architecture",
    "tests/messages",
    "tests/properties",
    "tests/release",
    "tests/scenarios",
    "tests/servers",
    "tests/unit",
    "warehouse",
)
"""The packages and folders that keep the limits; others join once their text is rewritten."""


@pytest.mark.parametrize("package", PLAIN)
def test_text_of_package_keeps_the_limits(package: str) -> None:
    """On failure, `python -m tests.prose --where PACKAGE` prints the lines."""
    found = count(files_of(package))
    assert found.what_rate < WHAT_LIMIT
    assert found.persons_rate < PERSONS_LIMIT


def test_docstrings_and_comments_are_counted_and_code_is_not() -> None:
    source = '"""One."""\nx = "not this"  # two\n"""Three of x."""\n\ndef f():\n    """Four."""\n'
    assert sorted(texts_of(source)) == [
        (1, "One."),
        (2, " two"),
        (3, "Three of x."),
        (6, "Four."),
    ]
