"""YAML from outside as a bounded tree, with the line of each value.

Put here: size, depth and encoding limits, duplicate keys, scalars as mig-parted's reader has them.
Not here: the meaning of the values (`domain.mig.parted`).

The parser in C follows nesting with its own stack and dies on a few ten thousand brackets, so the
depth is checked before the tree is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from domain.errors import BadInput, shown

LARGEST_FILE_BYTES = 1_048_576
"""A ConfigMap cannot be larger in Kubernetes, and mig-parted's file has to fit into one."""

MOST_LEVELS = 24
"""A configuration in a ConfigMap in a List has 12 levels."""

MOST_VALUES = 100_000
"""With the repetitions of aliases: a megabyte of aliases can stand for billions of values."""

_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[+-]?(?:0x[0-9a-fA-F]{1,16}|0b[01]{1,64}|[0-9]{1,20})", re.ASCII)
_WHOLE_FLOAT = re.compile(r"([+-]?[0-9]{1,18})\.0*", re.ASCII)
_BOOLEANS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


class NotAMigPartedFile(BadInput):
    """A configuration file that mig-parted itself would refuse."""

    code = "MIG-001"

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        super().__init__(
            where=where,
            seen=problem,
            why="mig-parted refuses the whole file, and the cards keep their layout",
            remedy=remedy or "`nvidia-mig-parted export` writes a valid file to compare with",
        )


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the tree: text, int, bool, None, list of values, or values by key."""

    line: int
    content: Any

    def items(self) -> Iterator[tuple[str, Value]]:
        assert isinstance(self.content, dict), "asked only of mappings"
        return iter(self.content.items())


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document, and the keys that were written twice in it."""

    root: Value
    repeated_keys: tuple[tuple[int, str], ...]


def read_documents(where: str, body: str | bytes) -> list[Document]:
    """The documents of a YAML text; an empty text is one document with no value."""
    text = _text(where, body)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_depth(where, yaml.parse(text, Loader=loader))
        nodes = list(yaml.compose_all(text, Loader=loader))
    except yaml.YAMLError as error:
        raise NotAMigPartedFile(_place(where, error), f"it is no YAML: {_problem(error)}") from None
    except (ValueError, RecursionError) as error:
        raise NotAMigPartedFile(where, f"it is no YAML: {shown(str(error))}") from None
    return [_document(where, node) for node in nodes] or [Document(Value(1, None), ())]


def _document(where: str, node: yaml.Node) -> Document:
    builder = _TreeBuilder(where)
    root = builder.value(node)
    return Document(root, tuple(builder.repeated))


def _text(where: str, body: str | bytes) -> str:
    size = len(body) if isinstance(body, bytes) else len(body.encode("utf-8", "surrogatepass"))
    if size > LARGEST_FILE_BYTES:
        raise NotAMigPartedFile(
            where,
            f"it has more than the {LARGEST_FILE_BYTES} bytes that fit into a ConfigMap",
            "look whether another file was given",
        )
    if isinstance(body, str):
        return body.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"byte 0x{body[error.start]:02x} at offset {error.start} is not UTF-8"
        raise NotAMigPartedFile(where, problem, "save it again as UTF-8") from None


def _refuse_depth(where: str, events: Iterator[Any]) -> None:
    depth = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_LEVELS:
            line = event.start_mark.line + 1
            raise NotAMigPartedFile(f"{where} line {line}", f"more than {MOST_LEVELS} levels deep")


class _TreeBuilder:
    """Turns composed nodes into values; an aliased node is turned once and counted every time."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.repeated: list[tuple[int, str]] = []
        self._done: dict[int, tuple[Value, int]] = {}  # by node: its value and its expanded size
        self._open: set[int] = set()

    def value(self, node: yaml.Node) -> Value:
        return self._sized(node)[0]

    def _sized(self, node: yaml.Node) -> tuple[Value, int]:
        if id(node) in self._open:
            raise self._refused(node, "an alias contains itself")
        if id(node) not in self._done:
            self._open.add(id(node))
            self._done[id(node)] = self._built(node)
            self._open.remove(id(node))
        found = self._done[id(node)]
        if found[1] > MOST_VALUES:
            raise self._refused(node, f"more than {MOST_VALUES} values, counting aliases")
        return found

    def _built(self, node: yaml.Node) -> tuple[Value, int]:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            items = [self._sized(item) for item in node.value]
            size = 1 + sum(size for _, size in items)
            return Value(line, [value for value, _ in items]), size
        if isinstance(node, yaml.MappingNode):
            return self._mapping(line, node)
        return Value(line, _scalar(node)), 1

    def _mapping(self, line: int, node: yaml.MappingNode) -> tuple[Value, int]:
        found: dict[str, Value] = {}
        merged: dict[str, Value] = {}
        size = 1
        for key_node, value_node in node.value:
            value, value_size = self._sized(value_node)
            size += value_size
            if key_node.tag == f"{_TAG}merge":
                for source in value.content if isinstance(value.content, list) else [value]:
                    if not isinstance(source.content, dict):
                        raise self._refused(key_node, "only mappings can be merged with <<")
                    merged = {**source.content, **merged}
                continue
            key = self._key(key_node)
            if key in found:
                self.repeated.append((key_node.start_mark.line + 1, key))
            found[key] = value
        return Value(line, {**merged, **found}), size

    def _key(self, node: yaml.Node) -> str:
        """Keys that are not text become text, as on the way to JSON."""
        content = _scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if content is None:
            raise self._refused(node, "a key is neither text nor a number")
        return str(content).lower() if isinstance(content, bool) else str(content)

    def _refused(self, node: yaml.Node, problem: str) -> NotAMigPartedFile:
        return NotAMigPartedFile(f"{self.where} line {node.start_mark.line + 1}", problem)


def _scalar(node: yaml.Node) -> str | int | bool | float | None:
    """A scalar as mig-parted's reader (YAML, then JSON, then Go) has it."""
    text = str(node.value)
    match str(node.tag).removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return _BOOLEANS.get(text.lower(), text)
        case "int" if _INTEGER.fullmatch(text):
            return _integer(text)
        case "float" if whole := _WHOLE_FLOAT.fullmatch(text):
            return int(whole[1])
        case "float":
            return float("nan")  # no field of the file takes one, whichever it is
        case _:
            return text


def _integer(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    if digits[:2] in ("0x", "0b"):
        return sign * int(digits, 0)
    is_octal = digits.startswith("0") and len(digits) > 1 and not set("89") & set(digits)
    return sign * int(digits, 8 if is_octal else 10)


def _place(where: str, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"{where} line {mark.line + 1}" if mark is not None else where


def _problem(error: yaml.YAMLError) -> str:
    return shown(str(getattr(error, "problem", None) or error).splitlines()[0])
