"""The settings of a pruner and the patterns by which workloads are chosen.

Put here: values, their defaults, and whether a workload is chosen.
Not here: options of the command line (`orchestration.cli.prune`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from idle_pruner.decision import Thresholds
from idle_pruner.evidence import SeriesReading

STOPS_PER_PASS_LIMIT = 5
STOPS_PER_HOUR_LIMIT = 20
CHECK_INTERVAL_SECONDS = 180
KILL_SWITCH_OFF = ("", "off", "false", "0")


@dataclass(frozen=True, slots=True)
class PruneSettings:
    """The workloads that a pruner examines, and the limits of its actions."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    scales_down: bool = False
    namespace_pattern: str = ""
    model_pattern: str = ""
    excluded_namespaces: tuple[str, ...] = ()
    excluded_pods: tuple[str, ...] = ()
    honor_labels: bool = False
    stops_per_pass: int = STOPS_PER_PASS_LIMIT
    stops_per_hour: int = STOPS_PER_HOUR_LIMIT
    kill_switch: Path | None = None
    alertmanager_urls: tuple[str, ...] = ()
    evidence_page: str = ""  # URL of the page that shows a workload's evidence, for notices

    @property
    def is_kill_switch_on(self) -> bool:
        """Whether the kill switch is on: its file exists and does not contain "off"."""
        if self.kill_switch is None:
            return False
        try:
            text = self.kill_switch.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return False
        except OSError:
            return True  # its state is unknown: nothing is stopped
        return text.strip().lower() not in KILL_SWITCH_OFF

    def excludes(
        self, namespace: str, pods: Sequence[str], readings: Sequence[SeriesReading]
    ) -> bool:
        """Whether the options exclude a workload, by its namespace, its pods or its GPU models."""
        if self.namespace_pattern and not re.fullmatch(self.namespace_pattern, namespace):
            return True
        if any(re.fullmatch(pattern, namespace) for pattern in self.excluded_namespaces):
            return True
        if any(re.fullmatch(pattern, pod) for pattern in self.excluded_pods for pod in pods):
            return True
        models = {reading.product for reading in readings}
        return bool(self.model_pattern) and not all(
            re.fullmatch(self.model_pattern, model) for model in models
        )

    @property
    def notice_valid_for(self) -> timedelta:
        """The time after a notice in which a stop may follow; later a new notice is given.

        The evidence before a stop covers `duration`: after a longer time the device may
        have been used in a part that no sample covers.
        """
        return self.thresholds.duration
