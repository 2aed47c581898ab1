"""The utilisation of a pod, in all notations: numbers, ranges, words, phases.

Put here: reading utilisation, the design document's literal notation included.
Not here: telemetry (`exporters`).

    80                                  per cent, always
    10-30                               a value between the two for each minute, seeded
    idle | busy | burst                 0; 100; 5 minutes of 95 in every 30, else 5
    {phases: [{time: 1h, utilisation: 80}, {time: 1h, utilisation: 0}], repeat: 5, then: hold}

and, as the design document writes it, keys without quotes and no comma before `repeat`:

    { { time: "1h" utilization: 80 }, { time: "1h" utilization: 0 } repeat: 5 }

That is no YAML, so it is found in the file's text and quoted before YAML reads it (`quoted_loads`).
After a finite number of repeats the pod idles; `then: hold` keeps the last value instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

import yaml

from fake_gpu.fleet.model import Utilisation
from fake_gpu.scenario.scalars import parse_duration
from fake_gpu.scenario.schema import InvalidScenarioValue, Reader, Shaped
from fake_gpu.scenario.seeds import RandomStream

NOTATION = "write 80, 10-30, idle, busy, burst, or phases of time and utilisation"

# A ranged value is drawn for each minute of an hour, and the hour repeats: so that the energy of
# any interval has a closed form.
MINUTES_OF_A_RANGE = 60

_WORDS = {
    "idle": ((3600, 0),),
    "busy": ((3600, 100),),
    "burst": ((300, 95), (1500, 5)),
}
_RANGE = re.compile(r"(\d{1,3})\s*-\s*(\d{1,3})")
# Between tokens stand spaces, line ends and comments.
_GAP = r"(?:\s|#[^\n]*)*"
_TOKEN = re.compile(_GAP + r"(?:([{}\[\],:])|\"([^\"]*)\"|'([^']*)'|([\w.%~-]+))")
# A mapping whose first key is a mapping: nothing else in a scenario is written so.
_LITERAL = re.compile(r"(?<!\S)#[^\n]*|(?P<key>\butili[sz]ation\s*:\s*)(?=\{" + _GAP + r"\{)")
_COMMENT = re.compile(r"(?<!\S)#[^\n]*")
LONGEST_LITERAL = 20_000  # characters: a phase for every minute of half a day


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a scenario; `Load.draw` makes it one pod's."""

    steps: tuple[tuple[int, int, int], ...]  # (seconds, low, high): equal unless ranged
    repeat: int | None = None
    hold: bool = False

    def draw(self, stream: RandomStream) -> Utilisation:
        steps = tuple(_drawn(self.steps, stream))
        after = steps[-1][1] if self.hold else 0
        return Utilisation(steps, self.repeat, after)


def _drawn(steps: tuple[tuple[int, int, int], ...], stream: RandomStream) -> list[tuple[int, int]]:
    drawn: list[tuple[int, int]] = []
    for seconds, low, high in steps:
        if low == high:
            drawn.append((seconds, low))
            continue
        minutes, rest = divmod(seconds, 60)
        lengths = [60] * minutes + ([rest] if rest else [])
        drawn += [(length, stream.between(low, high)) for length in lengths]
    return drawn


BUSY_LOAD = Load(((3600, 100, 100),))


def parse_load(text: str) -> Load:
    """A load from text: a number, a range, a word, or the literal notation."""
    cleaned = text.strip()
    if cleaned.startswith(("{", "[")):
        return _from_tree(_Literal(cleaned).value())
    if cleaned in _WORDS:
        return Load(tuple((seconds, pct, pct) for seconds, pct in _WORDS[cleaned]))
    low, high = _level(cleaned)
    seconds = 3600 if low == high else 60 * MINUTES_OF_A_RANGE
    return Load(((seconds, low, high),))


def _level(text: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(text.strip().rstrip("%"))
    low, high = (match[1], match[2]) if match else (text.strip().rstrip("%"),) * 2
    if not (low.isdigit() and high.isdigit()) or not int(low) <= int(high) <= 100:
        raise InvalidScenarioValue(f"{text!r} is no utilisation", NOTATION)
    return int(low), int(high)


def _from_tree(tree: object) -> Load:
    """Phases from either notation: lists of {time, utilisation}, with repeat and then."""
    if isinstance(tree, list):
        tree = {"phases": tree}
    if not isinstance(tree, dict):
        raise InvalidScenarioValue(f"{tree!r} has no phases", NOTATION)
    unknown = sorted(set(tree) - {"phases", "repeat", "then"})
    phases = tree.get("phases")
    if unknown or not isinstance(phases, list) or not phases:
        raise InvalidScenarioValue(
            f"phases with {', '.join(unknown) or 'nothing in them'}", NOTATION
        )
    steps = tuple(_phase(phase) for phase in phases)
    repeat = str(tree["repeat"]) if "repeat" in tree else None
    if repeat is not None and (not repeat.isdigit() or int(repeat) == 0):
        raise InvalidScenarioValue(f"repeat: {repeat} is not a number of times", "write repeat: 5")
    then = tree.get("then", "idle")
    if then not in ("idle", "hold"):
        raise InvalidScenarioValue(f"then: {then} is neither idle nor hold", "write then: hold")
    return Load(steps, int(repeat) if repeat else None, then == "hold")


def _phase(phase: object) -> tuple[int, int, int]:
    if not isinstance(phase, dict):
        raise InvalidScenarioValue(f"{phase!r} is no phase", "write {time: 1h, utilisation: 80}")
    level = phase.get("utilisation", phase.get("utilization"))
    unknown = set(phase) - {"time", "utilisation", "utilization"}
    if level is None or "time" not in phase or unknown:
        raise InvalidScenarioValue(
            f"a phase with {sorted(phase)}", "write {time: 1h, utilisation: 80}"
        )
    seconds = parse_duration(str(phase["time"]))
    if seconds <= 0:
        raise InvalidScenarioValue("a phase without a length", "write {time: 1h, utilisation: 80}")
    low, high = _level(str(level))
    return seconds, low, high


def quoted_loads(text: str) -> str:
    """A file's text with every load in the literal notation as one quoted value.

    Lines stay where they are. A value that begins like the notation and has no end is left to YAML,
    which refuses it.
    """
    parts = []
    done = 0
    for found in _LITERAL.finditer(text):
        if found.start() < done or not found["key"] or not (end := _closing(text, found.end())):
            continue
        literal = text[found.end() : end]
        quoted = " ".join(_COMMENT.sub("", literal).split()).replace("'", "''")
        parts += [text[done : found.end()], f"'{quoted}'", "\n" * literal.count("\n")]
        done = end
    return "".join([*parts, text[done:]])


def _closing(text: str, begin: int) -> int:
    """Behind the brace that closes the one at `begin`; 0 when none does within reach."""
    depth = 0
    at = begin
    while at - begin < LONGEST_LITERAL and (match := _TOKEN.match(text, at)):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(match[1], 0)
        at = match.end()
        if not depth:
            return at
    return 0


class _Literal:
    """The design document's notation: braces for lists too, commas where one likes."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if not match:
                raise InvalidScenarioValue(f"{text[at : at + 20]!r} cannot be read", NOTATION)
            self._tokens.append(next(g for g in match.groups() if g is not None))
            at = match.end()
        self._at = 0

    def value(self) -> object:
        tree = self._value()
        if self._at != len(self._tokens):
            raise InvalidScenarioValue(f"{self._tokens[self._at]!r} after the end", NOTATION)
        return tree

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise InvalidScenarioValue("it ends too early", NOTATION)
        self._at += 1
        return self._tokens[self._at - 1]

    def _value(self) -> object:
        opened = self._next()
        if opened not in ("{", "["):
            return opened
        items: list[object] = []
        keys: dict[str, object] = {}
        while (token := self._next()) not in ("}", "]"):
            if token == ",":
                continue
            if token in ("{", "["):
                self._at -= 1
                items.append(self._value())
                continue
            if self._next() != ":":
                raise InvalidScenarioValue(f"{token!r} has no value", NOTATION)
            keys[token] = self._value()
        if opened == "[" and not keys:
            return items
        return {**keys, "phases": items} if items else keys


def _tree(node: yaml.Node) -> object:
    if isinstance(node, yaml.MappingNode):
        return {str(k.value): _tree(v) for k, v in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_tree(item) for item in node.value]
    return str(node.value)


def _load(node: yaml.Node, path: str, reader: Reader) -> Load:
    if isinstance(node, yaml.ScalarNode):
        return parse_load(str(node.value))
    return _from_tree(_tree(node))


LoadNotation = Annotated[Load, Shaped(_load, NOTATION)]
