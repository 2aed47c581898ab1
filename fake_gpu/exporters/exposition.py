"""The text format of `/metrics`: families, lines, escaping.

Put here: how a line is written, and read back.
Not here: which lines there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fake_gpu.exporters.numbers import exposition_text, parse_value

Pairs = tuple[tuple[str, str], ...]
MetricKind = Literal["gauge", "counter", "untyped"]


@dataclass(frozen=True, slots=True)
class SeriesLine:
    """One series at one instant, without the name of its family."""

    labels: Pairs  # in the exporter's order
    value: float


@dataclass(frozen=True, slots=True)
class FamilyHead:
    """The HELP and TYPE lines of a family."""

    name: str
    help: str
    kind: MetricKind = "gauge"

    def text(self) -> str:
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.kind}\n"


def family_text(
    head: FamilyHead, lines: Iterable[SeriesLine], number: Callable[[float], str] = exposition_text
) -> str:
    """A family as it stands in an exposition."""
    return head.text() + "".join(
        f"{head.name}{labels_text(line.labels)} {number(line.value)}\n" for line in lines
    )


def labels_text(labels: Iterable[tuple[str, str]]) -> str:
    written = ",".join(f'{name}="{escaped(value)}"' for name, value in labels)
    return f"{{{written}}}" if written else ""


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d+))?")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?')
_ESCAPE = re.compile(r"\\(.)")


def read_lines(text: str) -> Iterator[tuple[str, SeriesLine]]:
    """Every sample of an exposition with the name of its family."""
    for row in text.splitlines():
        match = _SAMPLE.fullmatch(row.strip())
        if row.startswith("#") or match is None:
            continue
        pairs = tuple(
            (name, _ESCAPE.sub(_unescaped, value))
            for name, value in _LABEL.findall(match.group(2) or "")
        )
        yield match.group(1), SeriesLine(pairs, parse_value(match.group(3)))


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match.group(1) == "n" else match.group(1)
