"""Homes with one damaged file, and every command of the command line on them.

Put here: the kinds of files and of damage, the arguments of each command that reads a home, and the
permitted errors.
Not here: homes (`test_damaged_files` makes them), or the parsers of single files.
"""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from click.testing import CliRunner

from domain.errors import LedgerError
from orchestration.cli.main import PlaceFailed, cli

EXIT_CODES = (1, 2, 3)

ENDLESS = {
    "collect": "watches until it is stopped",
    "demo": "makes its own home",
    "portal": "serves until it is stopped",
    "prune": "asks a cluster until it is stopped",
}
"""Commands that run until they are stopped."""

VALUES = {
    "period": "2026-10",
    "number": "INV-000001",
    "kind": "Deployment",
    "workload": "team-a/train",
    "pod": "team-a/train",
    "name": "busiest-hours",
    "node_name": "node-1",
    "started": "2026-10-01T00:00:00Z",
    "ended": "2026-10-01T01:00:00Z",
    "reason": "a test",
    "decided_by": "Ada",
}
"""Values of required parameters. A new command with another parameter needs it here."""

FURTHER = {
    "close": ("--issue", "--no-recheck"),
    "explain": ("--line", "1"),
    "mig plan": ("--want", "1g.5gb=1"),
    "portal token create": ("--role", "provider"),
    "up": ("--prepare-only",),
    "prune explain": ("--prometheus-url", "http://127.0.0.1:9"),
}
"""Options with which a command reads more, or ends."""


@dataclass(frozen=True)
class HomeCommand:
    """A command that reads a home, and its arguments."""

    name: str
    words: tuple[str, ...]


def commands(home: Path) -> list[HomeCommand]:
    """Every command of the table that takes a home, and `verify`, which reads files of a home."""
    listed = [c for c in _leaves(cli, ()) if _has_home(c[1]) and c[0][0] not in ENDLESS]
    listed += [c for c in _leaves(cli, ()) if c[0][0] in ENDLESS and len(c[0]) > 1]
    made = [_typed(" ".join(path), command, home) for path, command in listed]
    bundle = home / "documents/2026-10/2026-10.zip"
    return [*made, HomeCommand("verify", ("verify", str(bundle)))]


def _leaves(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from _leaves(below, (*path, name))


def _has_home(command: click.Command) -> bool:
    return any(parameter.name == "home_path" for parameter in command.params)


def _typed(name: str, command: click.Command, home: Path) -> HomeCommand:
    bodies = sorted((home / "landing/objects").rglob("*.zst"))
    beside = home.parent / name.replace(" ", "-")
    given = VALUES | {"sha256": bodies[0].name.split(".")[0] if bodies else "0" * 64}
    clusters = (home / "decisions/clusters.csv").read_text().splitlines()
    given["cluster_id"] = next(row for row in clusters[1:] if row[:1] != "#").split(",")[0]
    given |= {"folder": str(beside), "place": str(beside)}
    words = name.split()
    if name == "restore":
        given["folder"], home = str(home.parent / "copy"), home.parent / "restored"
        words += ["--by", "Ada", "--and", "Bob"]
    if name == "support-bundle":
        words += ["--to", str(beside)]
    for parameter in command.params:
        is_word = isinstance(parameter, click.Argument)
        if not (is_word or parameter.required):
            continue
        kind = parameter.type
        value = kind.choices[0] if isinstance(kind, click.Choice) else given[parameter.name or ""]
        words += [value] if is_word else [parameter.opts[0], value]
    return HomeCommand(name, (*words, *FURTHER.get(name, ()), "--home", str(home)))


Damage = Callable[[Path, random.Random], None]


def _written(change: Callable[[bytes, random.Random], bytes]) -> Damage:
    def damage(path: Path, choose: random.Random) -> None:
        body = change(path.read_bytes(), choose)
        path.unlink()  # it may be a link to a file of the original home
        path.write_bytes(body)

    return damage


def _replaced_by_folder(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _unreadable(path: Path, _: random.Random) -> None:
    body = path.read_bytes()
    path.unlink()
    path.write_bytes(body)
    path.chmod(0)


DAMAGES: dict[str, Damage] = {
    "truncated": _written(lambda body, _: body[: len(body) // 2]),
    "empty": _written(lambda body, _: b""),
    "not UTF-8": _written(lambda body, _: b"\xff\xfe\x00" + body),
    "random bytes": _written(lambda body, choose: choose.randbytes(min(len(body) + 20, 10_000))),
    "a folder": _replaced_by_folder,
    "missing": lambda path, _: path.unlink(),
}
if os.geteuid() != 0:
    DAMAGES["unreadable"] = _unreadable


def kinds_of_files(template: Path) -> dict[str, list[Path]]:
    """The files of a home and of its backup, by kind: their folder and ending, without numbers."""
    kinds = defaultdict(list)
    for path in sorted(p for p in template.rglob("*") if p.is_file() and not p.is_symlink()):
        place = path.relative_to(template)
        if "dbt" in place.parts or path.name.startswith(".") or ".locks" in place.parts:
            continue
        top = place.parts[1] if len(place.parts) > 2 else ""
        name = re.sub(r"[0-9a-f-]{6,}|[0-9]+", "…", path.name)
        kinds[f"{place.parts[0]}/{top}/{name if len(name) < 30 else path.suffix}"].append(place)
    return dict(kinds)


@dataclass(frozen=True)
class Case:
    """One damaged file, and the commands for it."""

    kind: str
    place: Path
    damage: str


def cases(template: Path, choose: random.Random) -> list[Case]:
    """All pairs of a kind and a damage, in random order; one file of each kind."""
    found = [
        Case(kind, choose.choice(places), damage)
        for kind, places in kinds_of_files(template).items()
        for damage in DAMAGES
    ]
    choose.shuffle(found)
    return found


def copied(template: Path, folder: Path) -> Path:
    """A copy whose files may be replaced; files that are changed in place are real copies."""

    def copy(source: str, target: str) -> None:
        if source.endswith((".duckdb", ".toml", ".csv", ".jsonl", ".wal")):
            shutil.copyfile(source, target)
        else:
            os.link(source, target)

    shutil.copytree(
        template, folder, copy_function=copy, ignore=shutil.ignore_patterns("dbt", ".locks")
    )
    return folder


def error_of(words: Sequence[str]) -> BaseException | None:
    """The error of a command; None if it succeeded, or ended with findings."""
    raised = CliRunner().invoke(cli, list(words), standalone_mode=False).exception
    return PlaceFailed(raised) if isinstance(raised, OSError) else raised


def fault_of(raised: BaseException | None, place: Path) -> str:
    """The fault in the error of a command on a damaged home; empty if there is none."""
    if isinstance(raised, SystemExit):
        return "" if raised.code in (0, None, *EXIT_CODES) else f"exit code {raised.code}"
    if raised is None or isinstance(raised, click.ClickException):
        return ""
    if not isinstance(raised, LedgerError):
        return "a traceback: " + "".join(traceback.format_exception(raised)[-4:])
    if raised.exit_code not in EXIT_CODES:
        return f"exit code {raised.exit_code}"
    if not raised.remedy:
        return f"no remedy: {raised.message()}"
    said = raised.message()
    name = place.name.split(".")[0]
    if place.name in said or (len(name) > 5 and name[:12] in said):
        return ""
    return f"does not name the file: {said}"


def walk(
    template: Path,
    folder: Path,
    chosen: Sequence[Case],
    choose: random.Random,
    but: Sequence[str] = (),
    count: int = 0,
) -> tuple[int, list[str]]:
    """The number of commands run, and the faults of errors that the undamaged home does not cause.

    `but` excludes commands; `count` is the number of commands on one home, all if it is 0.
    """
    whole = copied(template, folder / "whole")
    expected = {
        one.name: type(error_of(one.words))
        for one in commands(whole / "home")
        if one.name not in but
    }
    shutil.rmtree(whole)
    tried, faults = 0, []
    for number, case in enumerate(chosen):
        there = copied(template, folder / f"{number}")
        typed = [one for one in commands(there / "home") if one.name in expected]
        DAMAGES[case.damage](there / case.place, choose)
        for one in choose.sample(typed, min(count or len(typed), len(typed))):
            raised, tried = error_of(one.words), tried + 1
            if type(raised) is expected[one.name] and raised is not None:
                continue
            if fault := fault_of(raised, case.place):
                faults.append(f"{one.name} on {case.place} ({case.damage}): {fault}")
        _remove(there)
    return tried, faults


def unnamed_on_a_full_disk(
    template: Path, folder: Path, limit: int, but: Sequence[str]
) -> list[str]:
    """The commands whose error does not name the file, if no file may grow beyond `limit` bytes."""
    faults = []
    for number, one in enumerate(commands(copied(template, folder / "words") / "home")):
        if one.name in but:
            continue
        there = copied(template, folder / f"{number}")
        words = [word.replace(str(folder / "words"), str(there)) for word in one.words]
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
        try:
            raised = error_of(words)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        is_named = isinstance(raised, LedgerError) and raised.where != "a file"
        if not (raised is None or is_named or isinstance(raised, SystemExit)):
            faults.append(f"{one.name}: {raised!r}")
        _remove(there)
    return faults


def _remove(folder: Path) -> None:
    for path in folder.rglob("*"):
        if not path.is_symlink() and path.is_file():
            path.chmod(0o600)
    shutil.rmtree(folder)
