"""The hash of a record is the same on every machine, in every process and locale.

Put here: the behaviour of `domain.identity`, with hashes calculated independently.
Not here: which records are hashed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from domain.errors import InvalidValue
from domain.identity import canonical, chain, sha256, sha256_bytes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, b"n0:"),
        (True, b"b1:1"),
        (False, b"b1:0"),
        (0, b"i1:0"),
        (-17, b"i3:-17"),
        ("", b"s0:"),
        ("äß", b"s4:\xc3\xa4\xc3\x9f"),
        (b"\x00", b"y1:\x00"),
        (Decimal("1.50"), b"d3:1.5"),
        (Decimal("150E-2"), b"d3:1.5"),
        (Decimal("1E+2"), b"d3:100"),
        (Decimal("-0.00"), b"d1:0"),
        (Fraction(2, 14), b"q3:1/7"),
        (datetime(2026, 10, 1, tzinfo=UTC), b"t20:2026-10-01T00:00:00Z"),
        (["a", 1], b"l8:s1:ai1:1"),
        ({"b": 1, "a": 2}, b"m16:s1:ai1:2s1:bi1:1"),
    ],
)
def test_canonical_bytes_equal_the_ones_written_by_hand(value: object, expected: bytes) -> None:
    assert canonical(value) == expected
    assert sha256(value) == hashlib.sha256(expected).hexdigest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["ab", "c"], ["a", "bc"]),
        (["a", ""], ["a"]),
        (1, "1"),
        (1, True),
        (0, False),
        (None, ""),
        (b"a", "a"),
        (Decimal(1), 1),
        (Fraction(1, 1), 1),
        ([], {}),
        (["a", "b"], {"a": "b"}),
        ([["a"], "b"], ["a", ["b"]]),
        ("é", "e\u0301"),  # displayed alike, but different names to Kubernetes
    ],
)
def test_different_records_have_different_hashes(one: object, other: object) -> None:
    assert sha256(one) != sha256(other)


def test_order_and_spelling_of_a_record_do_not_change_its_hash() -> None:
    assert sha256({"a": 1, "b": 2}) == sha256({"b": 2, "a": 1})
    assert sha256(("a", "b")) == sha256(["a", "b"])
    kolkata = timezone(timedelta(hours=5, minutes=30))
    midnight = datetime(2026, 10, 1, tzinfo=UTC)
    assert sha256(midnight) == sha256(midnight.astimezone(kolkata))


def test_a_chain_depends_on_every_event_and_on_their_order() -> None:
    heads = {chain(chain("", first), second) for first, second in ["ab", "ba", "aa"]}
    assert len(heads) == 3


def test_bytes_are_hashed_unchanged() -> None:
    """The published SHA-256 of `abc` (FIPS 180-2, appendix B.1)."""
    published = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_bytes(b"abc") == published


@pytest.mark.parametrize(
    "value", [1.5, {1: "a"}, {"a": 0.1}, [{"b": [1.0]}], object(), date(2026, 10, 1), {"a", "b"}]
)
def test_values_without_a_canonical_form_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="canonical bytes"):
        canonical(value)


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_decimals_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(TypeError, match="not a number"):
        canonical(Decimal(text))


def test_unsupported_times_are_refused() -> None:
    with pytest.raises(InvalidValue):
        canonical(datetime(2026, 10, 1, tzinfo=UTC) + timedelta(milliseconds=1))


def test_half_a_character_has_a_hash() -> None:
    assert canonical("\ud800") == b"s3:\xed\xa0\x80"


RECORD = """
from datetime import datetime, timezone
from decimal import Decimal
from fractions import Fraction
from domain.identity import sha256
print(sha256({"straße": ["İ", "ı", 10**40, Decimal("1234567.89"), Fraction(1, 7), None, True],
              "time": datetime(2026, 10, 25, 1, 30, tzinfo=timezone.utc),
              **{str(n): n for n in range(50)}}))
"""


def in_a_process(**environment: str) -> str:
    known = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", RECORD],
        env={**known, **environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_the_hash_is_the_same_in_every_process_locale_and_zone() -> None:
    hashes = {
        in_a_process(PYTHONHASHSEED="0", LC_ALL="C", TZ="UTC"),
        in_a_process(PYTHONHASHSEED="1", LC_ALL="C.UTF-8", TZ="Asia/Kolkata"),
        in_a_process(PYTHONHASHSEED="4294967295", LC_ALL="tr_TR.UTF-8", TZ="Pacific/Apia"),
        in_a_process(LC_ALL="de_DE.UTF-8", PYTHONUTF8="1", TZ="America/St_Johns"),
    }
    assert len(hashes) == 1
