"""`gpu-ledger support-bundle` and `completion`.

Put here: the two commands.
Not here: completion itself (click), or the files of a bundle (`orchestration.support_bundle`).
"""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import get_completion_class

from orchestration.cli.main import cli
from orchestration.cli.output import emit_result, home_option, output_option
from orchestration.open_home import OpenHome
from orchestration.support_bundle import support_bundle as bundle
from warehouse.store import StoreUnusable

COMPLETION_EPILOG = """\b
Examples:
  gpu-ledger completion bash > ~/.local/share/bash-completion/completions/gpu-ledger
  eval "$(gpu-ledger completion zsh)"
"""


@click.command(epilog=COMPLETION_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands and options in SHELL with the Tab key."""
    found = get_completion_class(shell)
    assert found is not None, shell
    click.echo(found(cli, {}, "gpu-ledger", "_GPU_LEDGER_COMPLETE").source())


BUNDLE_EPILOG = """\b
Examples:
  gpu-ledger support-bundle                        writes support-bundle.zip
  gpu-ledger support-bundle --to /tmp/for-you.zip --home my-ledger
"""


@click.command("support-bundle", epilog=BUNDLE_EPILOG)
@click.option(
    "--to",
    "place",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("support-bundle.zip"),
    show_default=True,
    help="File to write.",
)
@home_option
@output_option
def support_bundle(place: Path, home_path: Path, output: str) -> None:
    """Write a ZIP for support requests: versions, outcomes, counts, findings by name.

    It has no secrets, evidence, amounts, or names of tenants or customers; addresses have no path.
    Its files are plain text: read them before you send it.
    """
    body = bundle(OpenHome.at(home_path))
    try:
        place.write_bytes(body)
    except OSError as cause:
        raise StoreUnusable(str(place), "write", cause) from cause
    done = {"file": str(place), "bytes": len(body)}
    emit_result(done, output, f"Written: {place}. Read it before you send it.")
