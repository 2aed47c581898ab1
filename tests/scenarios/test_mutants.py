"""Randomly drawn mutants of the models: the tests catch each of them."""

from __future__ import annotations

import os
import random

import pytest

from tests.mutants import MUTANTS, survivors_of

pytestmark = pytest.mark.explore

SEED = int(os.environ.get("SEED", "1"))
COUNT = min(len(MUTANTS), max(1, int(os.environ.get("N", "1000")) * len(MUTANTS) // 1000))


def test_no_mutant_survives() -> None:
    drawn = random.Random(SEED).sample([mutant.name for mutant in MUTANTS], COUNT)
    assert survivors_of(drawn) == []
