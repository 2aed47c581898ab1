"""What Dagster loads: the definitions of the home that GPU_LEDGER_HOME names.

Put here: this one line.
Not here: anything else (`orchestration.build` assembles).
"""

from __future__ import annotations

from orchestration.build import build_defs

defs = build_defs()
