"""A strict reader of YAML into frozen dataclasses, with the line of each error.

Put here: the reader: types to parsers, unknown keys, missing keys, duplicate keys.
Not here: the keys of a scenario (`spec`), or how a duration is written (`scalars`).

The dataclasses are the schema: their types define the allowed values, their `key(…)` the
meaning, and the reference in docs/ is generated from both. YAML's own guesses (a time, an octal
number, `no` as false) never happen: every scalar is read from its text by the expected type.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import yaml

from fake_gpu.scenario.errors import BadScenario, Problem

T = TypeVar("T")

# A scenario is written by hand; one of this size is a mistake, or an attack by anchors.
MAXIMUM_BYTES = 5_000_000
MAXIMUM_NODES = 500_000
# The deepest thing of a scenario has 12 levels. The parser in C follows nesting with its own stack
# and takes the process with it after a few ten thousand brackets.
MAXIMUM_LEVELS = 64


class InvalidScenarioValue(ValueError):
    """An invalid value: the value found, the valid form, and the place, if known."""

    def __init__(self, seen: str, remedy: str, line: int = 0) -> None:
        super().__init__(seen)
        self.seen = seen
        self.remedy = remedy
        self.line = line


def too_deep_at(text: str) -> int:
    """The line from which a YAML text is nested deeper than anything real; 0 when it is not."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAXIMUM_LEVELS:
            mark = event.start_mark
            return mark.line + 1 if mark else 1
    return 0


@dataclass(frozen=True)
class Scalar:
    """A scalar with its own notation: `Annotated[int, Scalar(parse_seconds, "90s, 2h30m")]`."""

    parse: Callable[[str, Reader], Any]
    notation: str


@dataclass(frozen=True)
class Shaped:
    """A value that may be written in several shapes: the parser gets the node itself."""

    parse: Callable[[yaml.Node, str, Reader], Any]
    notation: str


def key(
    doc: str,
    *,
    default: Any = dataclasses.MISSING,
    factory: Any = dataclasses.MISSING,
    shown: str = "",
) -> Any:
    """A key of the file: its meaning, and its default (as the reference shows it)."""
    metadata = {"doc": doc, "shown": shown}
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def yaml_name(attribute: str) -> str:
    """`from_` is written `from`."""
    return attribute.rstrip("_")


class Reader:
    """Reads one document and collects its problems."""

    def __init__(self, source: str, context: Mapping[str, Any] | None = None) -> None:
        self.source = source
        self.context: dict[str, Any] = dict(context or {})
        self.problems: list[Problem] = []
        self._visited = 0

    def compose(self, text: str) -> yaml.Node | None:
        """The document as nodes that know their lines."""
        if len(text.encode()) > MAXIMUM_BYTES:
            self._fail_now(0, f"the file has more than {MAXIMUM_BYTES} bytes", "split it")
        try:
            if line := too_deep_at(text):
                self._fail_now(line, f"more than {MAXIMUM_LEVELS} levels deep", "close brackets")
            node: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark else 0
            seen = str(getattr(error, "problem", None) or error)
            self._fail_now(line, f"not YAML: {seen}", "mend the syntax there")
        return node

    def finish(self) -> None:
        """Raise when anything was wrong."""
        if self.problems:
            once = dict.fromkeys(self.problems)
            ordered = sorted(once, key=lambda p: (p.line, p.path))
            raise BadScenario(self.source, ordered)

    def problem(self, node: yaml.Node | None, path: str, seen: str, remedy: str) -> None:
        line = node.start_mark.line + 1 if node is not None else 0
        self.problems.append(Problem(line, path, seen, remedy))

    def read(self, node: yaml.Node, kind: Any, path: str) -> Any:
        """The value of a node as `kind`; None after a problem was noted."""
        self._visited += 1
        if self._visited > MAXIMUM_NODES:
            line = node.start_mark.line + 1
            self._fail_now(line, f"more than {MAXIMUM_NODES} values", "use fewer anchors")
        origin = get_origin(kind)
        if origin is typing.Annotated:
            return self._annotated(node, kind, path)
        if origin in (Union, types.UnionType):
            return self._optional(node, kind, path)
        if origin is Literal:
            return self._literal(node, get_args(kind), path)
        if origin is tuple:
            return self._sequence(node, get_args(kind)[0], path)
        if origin is not None and issubclass(origin, Mapping):
            return self._mapping(node, get_args(kind)[1], path)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return self.record(node, kind, path)
        return self._scalar(node, kind, path)

    def record(self, node: yaml.Node, kind: type[T], path: str) -> T | None:
        """A mapping with known keys."""
        entries = self.entries(node, path)
        if entries is None:
            return None
        hints = _hints(kind)  # type: ignore[arg-type]
        fields = {yaml_name(f.name): f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
        values: dict[str, Any] = {}
        before = len(self.problems)
        for name, (key_node, value) in entries.items():
            if name not in fields:
                self._unknown(key_node, name, list(fields), path)
                continue
            attribute = fields[name].name
            values[attribute] = self.read(value, hints[attribute], _join(path, name))
        for name, entry in fields.items():
            needed = (
                entry.default is dataclasses.MISSING
                and entry.default_factory is dataclasses.MISSING
            )
            if needed and name not in entries:
                doc = str(entry.metadata.get("doc", ""))
                self.problem(node, path, f"`{name}` is missing", f"give it: {doc}")
        if len(self.problems) > before:
            return None
        return self._construct(node, kind, values, path)

    def _construct(
        self, node: yaml.Node, kind: type[T], values: dict[str, Any], path: str
    ) -> T | None:
        try:
            return kind(**values)
        except InvalidScenarioValue as error:
            self.problem(node, path, error.seen, error.remedy)
            return None

    def entries(self, node: yaml.Node, path: str) -> dict[str, tuple[yaml.Node, yaml.Node]] | None:
        """The keys of a mapping, each with its own node and its value's."""
        if not isinstance(node, yaml.MappingNode):
            self.problem(
                node, path, f"{_describe(node)} where keys are needed", "write `key: value`"
            )
            return None
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value in node.value:
            name = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            if name in found:
                self.problem(key_node, path, f"`{name}` occurs twice", "keep one of the two")
            found[name] = (key_node, value)
        return found

    def _annotated(self, node: yaml.Node, kind: Any, path: str) -> Any:
        base, *extras = get_args(kind)
        for extra in extras:
            if isinstance(extra, Shaped):
                return self._guarded(node, path, partial(extra.parse, node, path, self))
            if isinstance(extra, Scalar):
                if not isinstance(node, yaml.ScalarNode):
                    self.problem(node, path, f"{_describe(node)} is no value", extra.notation)
                    return None
                text = str(node.value)
                return self._guarded(node, path, partial(extra.parse, text, self))
        return self.read(node, base, path)

    def _guarded(self, node: yaml.Node, path: str, parse: Callable[[], Any]) -> Any:
        try:
            return parse()
        except InvalidScenarioValue as error:
            self.problem(node, path, error.seen, error.remedy)
            return None

    def _optional(self, node: yaml.Node, kind: Any, path: str) -> Any:
        if is_null(node):
            return None
        options = [option for option in get_args(kind) if option is not type(None)]
        return self.read(node, options[0], path)

    def _literal(self, node: yaml.Node, allowed: tuple[Any, ...], path: str) -> Any:
        text = str(node.value) if isinstance(node, yaml.ScalarNode) else _describe(node)
        if text in allowed:
            return text
        choices = ", ".join(str(a) or '""' for a in allowed)
        self.problem(node, path, f"{text!r} is none of the allowed words", f"use: {choices}")
        return None

    def _sequence(self, node: yaml.Node, item: Any, path: str) -> Any:
        if is_null(node):
            return ()
        if not isinstance(node, yaml.SequenceNode):
            self.problem(
                node, path, f"{_describe(node)} where a list is needed", "write `- …` lines"
            )
            return ()
        read = [self.read(n, item, f"{path}[{i}]") for i, n in enumerate(node.value)]
        return tuple(r for r in read if r is not None)

    def _mapping(self, node: yaml.Node, item: Any, path: str) -> Any:
        if is_null(node):
            return {}
        entries = self.entries(node, path) or {}
        return {n: self.read(v, item, _join(path, n)) for n, (_, v) in entries.items()}

    def _scalar(self, node: yaml.Node, kind: Any, path: str) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            self.problem(
                node, path, f"{_describe(node)} where one value is needed", "write one value"
            )
            return None
        text = str(node.value)
        if kind is str:
            return text
        if kind is bool and text in ("true", "false"):
            return text == "true"
        if kind is int and text.lstrip("-").isascii() and text.lstrip("-").isdigit():
            return int(text)
        needed = {bool: "true or false", int: "a whole number"}[kind]
        self.problem(node, path, f"{text!r} is not {needed}", f"write {needed}")
        return None

    def _unknown(self, node: yaml.Node, name: str, known: list[str], path: str) -> None:
        near = get_close_matches(name, known, n=1)
        remedy = f"did you mean `{near[0]}`?" if near else "known here: " + ", ".join(known)
        self.problem(node, path, f"unknown key `{name}`", remedy)

    def _fail_now(self, line: int, seen: str, remedy: str) -> typing.NoReturn:
        raise BadScenario(self.source, [*self.problems, Problem(line, "", seen, remedy)][-1:])


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def is_null(node: yaml.Node) -> bool:
    """Nothing, `~` or `null`."""
    plain = isinstance(node, yaml.ScalarNode) and not node.style
    return plain and node.value in ("", "~", "null")


def line_at(root: yaml.Node, path: str) -> int:
    """The line of `clusters[0].nodes[1]` in a document; 0 when it is not written there."""
    node = root
    for name, number in re.findall(r"(\w+)|\[(\d+)\]", path):
        if name and isinstance(node, yaml.MappingNode):
            inside = [value for key_node, value in node.value if key_node.value == name]
        elif number and isinstance(node, yaml.SequenceNode):
            inside = node.value[int(number) : int(number) + 1]
        else:
            inside = []
        if not inside:
            return 0
        node = inside[0]
    return int(node.start_mark.line) + 1


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _describe(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return repr(str(node.value))
