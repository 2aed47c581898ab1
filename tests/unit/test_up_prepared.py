"""`gpu-ledger up --prepare-only`: the requirements of Dagster's processes, for another launcher.

Put here: the files, the pool, the environment that is printed.
Not here: starting the processes (`servers/test_up`).
"""

from __future__ import annotations

import shlex
import socket
from pathlib import Path

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner

from orchestration.cli.up import up
from orchestration.dagster_code.instance import (
    POSTGRES_VARIABLE,
    DatabaseUnreachable,
    require_database,
)
from orchestration.dagster_code.model_assets import POOL
from orchestration.dagster_code.run_tags import HomeTaggingLauncher
from tests.orchestrated import prepare_models
from warehouse.home import Home

NAMES = ("DAGSTER_HOME", "GPU_LEDGER_HOME")
MORE = ("EVENT_BATCH_SIZE", "GRPC_TIMEOUT_SECONDS", "SENSOR_GRPC_TIMEOUT_SECONDS")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.delenv(POSTGRES_VARIABLE, raising=False)
    for name in (*NAMES, *(f"DAGSTER_{name}" for name in MORE)):
        monkeypatch.setenv(name, "")  # so that monkeypatch restores the value after the test
    home = Home.create(tmp_path / "a home")
    prepare_models(home.path)
    return home


def test_it_prints_the_environment_of_dagster_with_pool_and_launcher(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = CliRunner().invoke(up, ["--prepare-only", "--home", str(home.path)])
    assert ran.exit_code == 0, ran.output
    exports = [shlex.split(line) for line in ran.stdout.splitlines()]
    assert {word for word, _ in exports} == {"export"}
    environment = dict(said.split("=", 1) for _, said in exports)
    assert {name: environment[name] for name in NAMES} == {
        "DAGSTER_HOME": str(home.dagster),
        "GPU_LEDGER_HOME": str(home.path),
    }
    monkeypatch.setenv("DAGSTER_HOME", environment["DAGSTER_HOME"])
    with dg.DagsterInstance.get() as instance:
        assert instance.event_log_storage.get_concurrency_info(POOL).slot_count == 1
        assert isinstance(instance.run_launcher, HomeTaggingLauncher)
    workspace = yaml.safe_load((home.dagster / "workspace.yaml").read_text())
    [location] = workspace["load_from"]
    assert location["python_module"]["module_name"] == "orchestration.dagster_code.definitions"


def test_a_secret_is_named_and_not_printed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POSTGRES_VARIABLE, "postgresql://ledger:secret@db.example.com/ledger")
    monkeypatch.setattr("orchestration.dagster_code.instance.make_pool", lambda: None)
    monkeypatch.setattr("orchestration.dagster_code.instance.require_database", lambda url: None)
    ran = CliRunner().invoke(up, ["--prepare-only", "--home", str(home.path)])
    assert ran.exit_code == 0, ran.output
    assert "secret@" not in ran.output
    assert POSTGRES_VARIABLE not in ran.stdout
    assert f"{POSTGRES_VARIABLE} must be set as well" in ran.stderr


SECRET = "canary-7fQ"


def test_an_unreachable_database_is_an_error_without_its_password(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as bound:  # without listening
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        url = f"postgresql://ledger:{SECRET}@127.0.0.1:{port}/dagster"
        monkeypatch.setenv(POSTGRES_VARIABLE, url)
        ran = CliRunner().invoke(up, ["--prepare-only", "--home", str(home.path)])
    assert isinstance(ran.exception, DatabaseUnreachable)
    assert ran.exception.where == f"127.0.0.1:{port}/dagster"
    assert "Connection refused" in ran.exception.seen
    assert SECRET not in ran.exception.message() + ran.output


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        (f"{SECRET}", "its value is not a URL"),
        (f"postgresql://u:{SECRET}@h:no/d", "its value is not a URL"),
        (f"mysql://u:{SECRET}@h/d", "mysql:// is not PostgreSQL"),
        (f"postgresql+other://u:{SECRET}@h/d", "no connection: Can't load plugin"),
        (f"postgresql://u:{SECRET}@/d?host=/no/such/folder", "no connection: connection to server"),
    ],
)
def test_an_invalid_database_url_is_an_error_without_its_password(url: str, seen: str) -> None:
    with pytest.raises(DatabaseUnreachable) as raised:
        require_database(url)
    assert raised.value.seen.startswith(seen)
    assert SECRET not in raised.value.message()


def test_an_unreadable_file_of_the_url_is_named(home: Home, tmp_path: Path) -> None:
    (tmp_path / "latin-1").write_bytes(b"postgresql://\xe9")
    for name in ("missing", "latin-1"):
        path = tmp_path / name
        config = f'[schedule]\npostgres_url_file = "{path}"\n'
        home.config_path.write_text(config, encoding="utf-8")
        ran = CliRunner().invoke(up, ["--prepare-only", "--home", str(home.path)])
        assert isinstance(ran.exception, DatabaseUnreachable), ran.output
        assert ran.exception.where == str(path)
