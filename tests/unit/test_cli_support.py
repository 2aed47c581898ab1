"""A support bundle has no secret, and shell completion works."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.clock import StoppedClock
from orchestration.open_home import OpenHome
from orchestration.support_bundle import address, support_bundle
from warehouse.home import Home

CANARY = "canary-5b1f"
CLUSTER = "0a7c1d52-3c4e-4b8a-9d5f-6f1e2a3b4c5d"
SIGNED = "why,Ada Example,2026-01-01"


def opened(folder: Path) -> OpenHome:
    """A home with a canary in every place that may hold a secret or a name."""
    (folder / f"{CANARY}.token").write_text(CANARY)
    config = (
        f'[thanos.{{}}]\nurl = "https://thanos.example:9091/api/{CANARY}"\n'
        f'token_file = "{folder}/{CANARY}.token"\n'
        f'[clusters.{CLUSTER}]\nthanos = "fleet"\n'
    ).replace("{}", "fleet")
    home = Home.create(folder / "home", config)
    (home.decisions / "parties.csv").write_text(
        "role,tenant,name,address,tax_id,email,valid_from,valid_until,reason,decided_by,decided_on\n"
        f"issuer,,{CANARY} Ltd,{CANARY} Street,{CANARY},{CANARY}@example.com,2026-01-01,,{SIGNED}\n"
    )
    home.landing.mkdir(exist_ok=True)
    (home.landing / f"{CANARY}.txt").write_text(CANARY)
    return OpenHome(home, StoppedClock(datetime(2026, 11, 3, tzinfo=UTC)))


def read_files(bundle: bytes) -> dict[str, object]:
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def test_no_canary_is_in_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_LEDGER_POSTGRES_URL", f"postgresql://u:{CANARY}@db/x")
    home = opened(tmp_path)
    bundle = support_bundle(home)
    parts = read_files(bundle)
    assert CANARY not in json.dumps(parts)
    assert parts["settings.json"] == {
        "thanos": {"fleet": {"url": "https://thanos.example:9091", "token_file": "(set)"}},
        "clusters": {CLUSTER: {"thanos": "(set)"}},
    }
    decisions = parts["decisions.json"]
    assert isinstance(decisions, dict)
    assert decisions["parties.csv"] == 1
    assert parts["attempts.json"] == parts["record.json"] == []
    assert support_bundle(home) == bundle


def test_links_out_of_the_home_are_not_followed(tmp_path: Path) -> None:
    home = opened(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x" * 1000)
    (home.home.path / "documents").symlink_to(outside)
    (home.home.path / "published").mkdir()
    (home.home.path / "published" / "link").symlink_to(outside / "secret")
    (home.home.path / "runs").symlink_to(home.home.path)
    files = read_files(support_bundle(home))["files.json"]
    assert isinstance(files, dict)
    nothing = {"files": 0, "bytes": 0}
    assert {name: files[name] for name in ("documents", "published", "runs")} == {
        "documents": nothing,
        "published": nothing,
        "runs": nothing,
    }


def test_an_invalid_setting_is_shown_only_as_its_error(tmp_path: Path) -> None:
    home = opened(tmp_path)
    home.home.config_path.write_text(f'[{CANARY}]\nurl = "x"\n')
    parts = read_files(support_bundle(home))
    assert parts["settings.json"] == {"could_not_be_read": "CONF-001", "kind": "SettingNotValid"}
    assert CANARY not in json.dumps(parts)


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        (f"https://user:{CANARY}@host.example/path?token={CANARY}#x", "https://host.example"),
        ("http://127.0.0.1:9090", "http://127.0.0.1:9090"),
        (f"s3://bucket/{CANARY}", "s3://bucket"),
    ],
)
def test_an_address_is_scheme_host_and_port(url: str, kept: str) -> None:
    assert address(url) == kept


def test_the_shell_completes_commands_and_options() -> None:
    code = "from orchestration.cli.main import main; main()"

    def completions(words: str, number: int) -> list[str]:
        asked = {"_GPU_LEDGER_COMPLETE": "bash_complete", "COMP_WORDS": words}
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **asked, "COMP_CWORD": str(number)},
            capture_output=True,
            text=True,
        )
        return [line.partition(",")[2] for line in ran.stdout.splitlines()]

    assert completions("gpu-ledger su", 1) == ["support-bundle"]
    assert "--dry-run" in completions("gpu-ledger close --d", 2)


def test_the_completion_script_of_a_shell_is_printed() -> None:
    from click.testing import CliRunner

    from orchestration.cli.main import cli

    for shell in ("bash", "zsh", "fish"):
        printed = CliRunner().invoke(cli, ["completion", shell])
        assert printed.exit_code == 0
        assert f"_GPU_LEDGER_COMPLETE={shell}_complete" in printed.output
