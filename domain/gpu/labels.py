"""A node's labels, as the node carries them or as kube-state-metrics mangles them.

Put here: looking labels up under one spelling, for all spellings of sources.
Not here: the meaning of a label (`domain.gpu.nvidia`, `domain.gpu.amd`, `domain.gpu.intel`).

`nvidia.com/gpu.product` on the node is `label_nvidia_com_gpu_product` in `kube_node_labels`;
where two labels are mangled alike, both get a suffix `_conflict1`, `_conflict2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from domain.mig.profile import mangled

MOST_REPLICAS = 1_000_000
"""A device plugin offers at most a few dozen; a larger number in a label is no count."""

_CAMEL_CASE = re.compile(r"([a-z0-9])([A-Z])")
_CONFLICT = re.compile(r"_conflict[0-9]+\Z", re.ASCII)
_METRIC_PREFIX = "label_"


NAMES_REMEMBERED = 16_384
"""The same few hundred names stand on every node."""


@lru_cache(maxsize=NAMES_REMEMBERED)
def prometheus_label(name: str) -> str:
    """A label's name as kube-state-metrics writes it, without its prefix: snake_case."""
    return _CAMEL_CASE.sub(r"\1_\2", mangled(name)).lower()


@lru_cache(maxsize=NAMES_REMEMBERED)
def _one_spelling(name: str) -> str:
    if name.startswith(_METRIC_PREFIX):
        return _CONFLICT.sub("", name.removeprefix(_METRIC_PREFIX)).lower()
    return prometheus_label(name)


class NodeLabels:
    """Labels by their mangled name; empty values count as absent."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._values: dict[str, set[str]] = {}
        self._exact = {str(name): str(value).strip() for name, value in labels.items()}
        for name, value in labels.items():
            if str(value).strip():
                self._values.setdefault(_one_spelling(str(name)), set()).add(str(value).strip())

    @classmethod
    def of(cls, labels: Mapping[str, str] | NodeLabels) -> NodeLabels:
        """The labels as they are, if they are prepared already; else prepared."""
        return labels if isinstance(labels, NodeLabels) else cls(labels)

    def values(self, name: str) -> tuple[str, ...]:
        """Every value that the label has; more than one is ambiguous.

        A label of exactly this name on the node itself is the value. Mangled, two labels can
        look like one, and then the values of both are here.
        """
        if exact := self._exact.get(name):
            return (exact,)
        return tuple(sorted(self._values.get(prometheus_label(name), ())))

    def value(self, name: str) -> str | None:
        """The label's value when there is exactly one."""
        values = self.values(name)
        return values[0] if len(values) == 1 else None

    def count(self, name: str) -> int | None:
        """The label's value as a count; None when it is absent, doubled, or no count."""
        text = self.value(name)
        if text is None or not re.fullmatch(r"[0-9]{1,7}", text, re.ASCII):
            return None
        return int(text) if int(text) <= MOST_REPLICAS else None

    def has_exactly(self, name: str) -> bool:
        """Whether the node itself (not a metric, which mangles) carries this very name."""
        return name in self._exact

    def mangled_names(self, prefix: str) -> Iterator[tuple[str, str]]:
        """The mangled names that begin like `prefix`, as (rest of the name, a value)."""
        start = prometheus_label(prefix)
        for name in sorted(self._values):
            if name.startswith(start):
                yield name.removeprefix(start), min(self._values[name])
