"""A home is up once: a second start is refused, and the first one continues.

Put here: the lock, and the commands that take it.
Not here: the message (`messages/test_messages_orchestration`), or running processes
(`servers/test_up`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestration.cli.demo import demo
from orchestration.cli.up import up
from orchestration.dagster_code.web_ui import write_key
from orchestration.home_lock import AlreadyUp, lock_home, require_down
from warehouse.home import Home

URL = "http://127.0.0.1:3000"


def test_the_second_start_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    with lock_home(tmp_path, URL):
        with pytest.raises(AlreadyUp) as refused, lock_home(tmp_path, "elsewhere"):
            pass
        assert URL in refused.value.remedy
        with pytest.raises(AlreadyUp):
            require_down(tmp_path)
    require_down(tmp_path)
    with lock_home(tmp_path, "elsewhere"):
        pass


def test_a_process_that_outlives_its_start_still_holds_the_lock(tmp_path: Path) -> None:
    """A daemon whose `up` was killed still launches runs."""
    command = [sys.executable, "-c", "input()"]
    with lock_home(tmp_path, URL) as hold:
        daemon = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[hold.descriptor])
        hold.write_holders({"daemon": daemon.pid})
    with pytest.raises(AlreadyUp) as refused:
        require_down(tmp_path)
    assert str(daemon.pid) in refused.value.remedy
    daemon.communicate(b"\n")
    require_down(tmp_path)


def test_commands_find_the_home_up_before_they_check_the_port(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home")
    places = ["--home", str(home.path)]
    with lock_home(home.dagster, URL):
        for command, words in (
            (up, places),
            (up, [*places, "--demo"]),
            (demo, [*places, "--keep-running"]),
        ):
            ran = CliRunner().invoke(command, words)
            assert isinstance(ran.exception, AlreadyUp), words
            assert "token" not in ran.output
        write_key(home.dagster)  # the web server has started meanwhile
        again = CliRunner().invoke(up, places)
        assert isinstance(again.exception, AlreadyUp)
        assert again.output.startswith(f"A new session: {URL}/?token=")
        assert "token" not in again.exception.message()


def test_demo_does_not_delete_a_home_that_is_up(tmp_path: Path) -> None:
    from fake_gpu.fleet.build import build_fleet
    from fake_gpu.scenario.load import load_scenario
    from orchestration.demo.demo_home import make_home

    fleet = build_fleet(load_scenario("thin_line"))
    home = make_home(
        tmp_path / "home", fleet, "", {cluster.cluster_id: "" for cluster in fleet.clusters}
    )
    with lock_home(home.dagster, URL), pytest.raises(AlreadyUp):
        make_home(home.path, fleet, "", {})
    assert home.config_path.is_file()
