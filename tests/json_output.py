"""The JSON output of commands: the schema of each, and differences of a document from it.

Put here: the schemas by command, comparing a document, the page about them.
Not here: the choice of documents (the tests that run commands).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import click
from jsonschema import Draft202012Validator

from orchestration.cli.main import COMMANDS, cli
from tests.written_pages import DOCS

FILE = DOCS / "reference" / "json-output.schema.json"
SHARED = ("instant", "period", "sha256", "row", "error")


@cache
def schemas() -> Mapping[str, Any]:
    """The definitions of the schema file: shared ones, then a schema for each command."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))["$defs"]
    return found


def commands_with_json() -> list[str]:
    """The commands that print JSON, with their words."""
    return [
        path
        for path, command in _leaves()
        for option in command.params
        if isinstance(option.type, click.Choice) and "json" in option.type.choices
    ]


def _leaves() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if command is not None:
            yield from _leaves_of(name, command)


def _leaves_of(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from _leaves_of(f"{path} {name}", inner)


def differences(command: str, printed: str) -> list[str]:
    """The differences of the output from the command's schema; empty if there are none."""
    whole = {"$ref": f"#/$defs/{command}", "$defs": schemas()}
    found = Draft202012Validator(whole).iter_errors(json.loads(printed))
    return [f"{command} {error.json_path}: {error.message[:300]}" for error in found]


def json_page() -> str:
    """The page `docs/reference/json-output.md`, generated from the schemas."""
    parts = [
        "# JSON output\n",
        "The output of `-o json` (or `--json`), command by command. This page is generated from"
        " [the schema file](json-output.schema.json),\nin which each command has a definition to"
        " validate against; the tests validate the output of the commands.\n",
        "Amounts and exact fractions are text, so that no digit is lost; times are UTC, to the"
        " second. An error goes to\nstderr, and with `--json-errors` it is one object of `code`,"
        " `where`, `seen`, `why`, `remedy`.\n",
    ]
    parts += [f"- `{name}`: {schemas()[name]['description']}" for name in SHARED]
    parts.append("")
    for name, schema in schemas().items():
        if name not in SHARED:
            parts += [f"## gpu-ledger {name}\n", *_section(schema)]
    return "\n".join(parts)


def _section(schema: Mapping[str, Any]) -> Iterator[str]:
    for number, one in enumerate(schema.get("oneOf", [schema])):
        if number:
            yield f"or, for {one.get('title', 'one')}:\n"
        rows = list(_fields(one, ""))
        yield "| field | type |\n|---|---|"
        yield "\n".join(f"| `{path}` | {kind} |" for path, kind in rows) + "\n"


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    if schema.get("type") == "array" and "items" in schema:
        yield from _fields(schema["items"], f"{path}[]")
        return
    if "properties" not in schema:
        yield path, _kind(schema)
        return
    for name, field in schema["properties"].items():
        sometimes = "" if name in schema["required"] else ", not always there"
        inner = [*_fields(field, f"{path}.{name}" if path else name)]
        yield from ((deeper, f"{kind}{sometimes}") for deeper, kind in inner)


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "anything")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
