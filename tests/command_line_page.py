"""The page about the command line, generated from the help of the commands.

Put here: the page `docs/reference/cli.md`.
Not here: any help text (the commands have it).
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from orchestration.cli.main import COMMANDS, cli

WIDTH = 96


def command_line_page() -> str:
    """Every command and subcommand with its help, in the order of `gpu-ledger --help`."""
    parts = [
        "# The command line\n",
        "This page is made of the commands' own help; a test compares the two.\n",
        _help(cli, "gpu-ledger"),
    ]
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None, name
        parts += [f"## gpu-ledger {name}\n", *_sections(command, f"gpu-ledger {name}")]
    return "\n".join(parts)


def _sections(command: click.Command, path: str, heading: str = "###") -> Iterator[str]:
    yield _help(command, path)
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield f"{heading} {path} {name}\n"
            yield from _sections(command.commands[name], f"{path} {name}", f"{heading}#")


def _help(command: click.Command, path: str) -> str:
    context = click.Context(
        command,
        info_name=path,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
        color=False,
    )
    return f"```\n{command.get_help(context).rstrip()}\n```\n"
