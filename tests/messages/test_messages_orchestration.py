"""Every message of the command line and of Dagster, from an input that causes it.

Put here: codes of `orchestration`.
Not here: messages of the stages.

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.errors import LedgerError

GOLDEN = Path(__file__).parent / "golden"


def no_home_named(folder: Path, patch: pytest.MonkeyPatch) -> None:
    from orchestration.dagster_code.resources import home_from_environment

    patch.delenv("GPU_LEDGER_HOME", raising=False)
    home_from_environment()


def nothing_measured(folder: Path, patch: pytest.MonkeyPatch) -> None:
    from orchestration.dagster_code.build import build_defs
    from orchestration.dagster_code.resources import LedgerHome
    from warehouse.home import Home

    Home.create(folder)
    build_defs(LedgerHome(path=str(folder)))


def not_a_demo_home(folder: Path, patch: pytest.MonkeyPatch) -> None:
    from fake_gpu.fleet.build import build_fleet
    from fake_gpu.scenario.load import load_scenario
    from orchestration.demo.demo_home import make_home

    (folder / "thesis.txt").write_text("three years of work")
    make_home(folder, build_fleet(load_scenario("thin_line")), "", {})


def fleet_gone(folder: Path, patch: pytest.MonkeyPatch) -> None:
    import httpx

    from orchestration.fleet_clock import FleetClock

    def refused(*_: object, **__: object) -> None:
        raise httpx.ConnectError("[Errno 111] Connection refused")

    patch.setattr(httpx, "get", refused)
    FleetClock("http://127.0.0.1:9400/-/clock").now()


def web_ui_did_not_start(folder: Path, patch: pytest.MonkeyPatch) -> None:
    import subprocess
    import sys

    from orchestration.dagster_code.web_ui import WebUi

    ended = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    ended.wait()
    WebUi("http://127.0.0.1:3000", folder, {"webserver": ended}, "").wait_until_ready()


def port_taken(folder: Path, patch: pytest.MonkeyPatch) -> None:
    import socket

    from orchestration.dagster_code.web_ui import require_free

    patch.setattr(socket.socket, "connect_ex", lambda *_: 0)
    require_free("127.0.0.1", 3000)


def place_full(folder: Path, patch: pytest.MonkeyPatch) -> None:
    from orchestration.cli.main import PlaceFailed

    raise PlaceFailed(OSError(28, "No space left on device", str(folder / "warehouse.duckdb")))


def misspelled(folder: Path, patch: pytest.MonkeyPatch) -> None:
    import click

    from orchestration.cli.main import WrongCommand, cli

    try:
        cli.main(["colse"], prog_name="gpu-ledger", standalone_mode=False)
    except click.ClickException as error:
        raise WrongCommand(error) from error


def database_unreachable(folder: Path, patch: pytest.MonkeyPatch) -> None:
    from orchestration.dagster_code.instance import DatabaseUnreachable

    raise DatabaseUnreachable(
        "db.example.com:5432/dagster",
        'no connection: connection to server at "db.example.com" (192.0.2.7), port 5432 failed: '
        "Connection refused Is the server running on that host and accepting TCP/IP connections?",
    )


CASES: dict[str, Callable[[Path, pytest.MonkeyPatch], None]] = {
    "HOME-001-unnamed": no_home_named,
    "DEC-001-clusters": nothing_measured,
    "HOME-001-demo": not_a_demo_home,
    "LOG-001-simulation": fleet_gone,
    "LOG-001-web": web_ui_did_not_start,
    "UP-001": port_taken,
    "STORE-001-file": place_full,
    "COMMAND-001": misspelled,
    "SERVER-001-postgres": database_unreachable,
}


@pytest.mark.parametrize("code", sorted(CASES))
def test_the_message_is_word_for_word(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LedgerError) as raised:
        CASES[code](tmp_path, monkeypatch)
    assert code.startswith(raised.value.code)
    message = raised.value.message().replace(str(tmp_path), "FOLDER") + "\n"
    golden = GOLDEN / f"{code}.txt"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        golden.write_text(message, encoding="utf-8")
    assert message == golden.read_text(encoding="utf-8")
