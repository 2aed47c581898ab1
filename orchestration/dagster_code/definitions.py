"""The module that Dagster loads: the definitions of the home that GPU_LEDGER_HOME names.

Put here: this one line.
Not here: anything else (`build` assembles the definitions).
"""

from __future__ import annotations

from orchestration.dagster_code.build import build_defs

defs = build_defs()
