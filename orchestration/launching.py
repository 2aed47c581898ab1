"""Launching runs as Dagster does by itself, each with the mark of the home that it was started in.

Put here: the launcher that `dagster.yaml` names.
Not here: ending the runs that went down with it (`orchestration.dagster_home`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from orchestration.tags import STARTED_IN


class MarkingLauncher(dg.DefaultRunLauncher):
    """A run of several homes' in one database is told by its mark.

    The mark is there before the run is: one that dies at once has it, too.
    """

    def __init__(self, mark: str, inst_data: Any = None) -> None:
        self._mark = mark
        super().__init__(inst_data)

    @classmethod
    def config_type(cls) -> Any:
        return {"mark": str}

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Mapping[str, Any]) -> MarkingLauncher:
        return cls(config_value["mark"], inst_data)

    def launch_run(self, context: Any) -> None:
        self._instance.add_run_tags(context.dagster_run.run_id, {STARTED_IN: self._mark})
        super().launch_run(context)
