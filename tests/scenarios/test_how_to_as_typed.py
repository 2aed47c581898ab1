"""The commands of the how-to pages run; an outdated block fails.

Put here: the pages that need no closed month, and a check that every page is run by some test.
Not here: the page on correcting and the README (`test_thin_line`), Dagster's pages
(`servers/test_pages_in_a_browser`), tutorials (`test_pages_as_typed`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from ingestion.exporter_pins import Exporter
from ingestion.settings import load_settings, parse_settings
from tests.how_to import CLUSTER_ID, FENCED, blocks, commands_in, of, typed
from tests.written_pages import DOCS

pytestmark = [pytest.mark.deep, pytest.mark.engines]

FAKE, HUB = "how-to/a-fake-cluster-of-your-own.md", "how-to/query-an-acm-hub.md"
WATCH, HEAL = "how-to/watch-a-cluster.md", "how-to/backfill-a-gap-and-close-a-month.md"
# Run elsewhere: the first two in `test_thin_line`. The last one begins with `up --demo`, which the
# browser's test starts; its other blocks run like a tutorial.
CORRECT, WALK = (
    "how-to/correct-void-and-restore.md",
    "explanation/from-an-invoice-line-to-the-raw-sample.md",
)
OPERATOR = "tutorials/operator.md"
# Run with a real API server: `servers/test_amd_exporter_installed`.
AMD = "how-to/amd-gpus.md"
PORTAL = "how-to/run-the-portal.md"


@contextmanager
def serving(folder: Path, command: list[str]) -> Iterator[dict[str, str]]:
    """Start the server that the page starts in a second terminal; returns the printed addresses."""
    program = Path(sys.executable).with_name(command[0])
    with subprocess.Popen(
        [program, *command[1:], "-o", "csv"], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            header = server.stdout.readline()
            assert header == "api,cluster,url\n"
            rows = [server.stdout.readline().strip().split(",") for _ in range(4)]
            yield {what.upper(): url for what, _, url in rows}
        finally:
            server.terminate()


def test_a_fake_cluster_is_written_served_asked_and_exported(tmp_path: Path) -> None:
    fleet, faults = of(FAKE, "yaml")
    (tmp_path / "my-fleet.yaml").write_text(fleet)
    look, serve, ask, truth, load = of(FAKE, "sh")
    assert "team-blue" in typed(tmp_path, look)
    [command] = commands_in(serve)
    with serving(tmp_path, command) as addresses:
        said = typed(tmp_path, ask, addresses)
        for part in ('"status":"success"', '"kind":"PodList"', "DCGM_FI_DEV_GPU_UTIL"):
            assert part in said
        seen = json.loads(typed(tmp_path, 'curl -s "$CONTROL/-/clock"', addresses))
        assert seen["now"] == "2026-10-05T12:00:00Z"
    assert "team-red" in typed(tmp_path, truth)
    typed(tmp_path, load)
    assert (tmp_path / "data").is_dir()
    with_faults = yaml.safe_load(fleet + faults)
    assert len(with_faults["faults"]) == 3
    (tmp_path / "my-fleet.yaml").write_text(fleet + faults)
    typed(tmp_path, commands_and_nothing_else(look)[0])


def commands_and_nothing_else(block: str) -> list[str]:
    return [line for line in block.splitlines() if line and not line.startswith("#")]


def test_a_hub_gets_its_manifests_and_the_ledger_its_settings(tmp_path: Path) -> None:
    init, token, doctor = (text.replace("/run/secrets", str(tmp_path)) for text in of(HUB, "sh"))
    said = typed(tmp_path, init)
    for name in ("1-hub-allowlist.yaml", "2-hub-reader.yaml", "3-every-cluster-admission"):
        assert name in said
    typed(tmp_path, token)
    assert (tmp_path / "thanos-token").read_text() == "a-token\n"
    config = tmp_path / "my-ledger" / "config.toml"
    config.write_text(config.read_text() + "".join(of(HUB, "toml")))
    thanos = load_settings(config).cluster(CLUSTER_ID).thanos
    assert thanos is not None
    assert all(thanos.pins.of(exporter) for exporter in Exporter if exporter)
    # No hour has landed yet, which is a ✗ of its own: the doctor ends with 1.
    where = {"GPU_LEDGER_HOME": "my-ledger"}
    typed(tmp_path, f"{doctor.strip()} || test $? = 1", where)


def test_a_cluster_gets_its_collector_and_the_ledger_its_settings(tmp_path: Path) -> None:
    image, init, watched, look = of(WATCH, "sh")
    make, push = (line.split() for line in commands_and_nothing_else(image))
    assert "\nimage: " in (DOCS.parent / "Makefile").read_text()
    component, registry = (word.partition("=")[2] for word in make[2:])
    assert make[:2] == ["make", "image"]
    assert push[-1] == f"{registry}/gpu-ledger/{component}:0.1.0"
    assert f"--image {push[-1]}" in init
    typed(tmp_path, init)
    assert (tmp_path / f"my-ledger/deploy/collector-{CLUSTER_ID}.yaml").is_file()
    assert (DOCS.parent / watched.split()[-1]).is_file()  # applied by `servers/test_deployment`
    config = tmp_path / "my-ledger" / "config.toml"
    [settings] = of(WATCH, "toml")
    config.write_text(config.read_text() + settings)
    kubernetes = load_settings(config).cluster(CLUSTER_ID).kubernetes
    assert kubernetes is not None
    assert kubernetes.journal == "s3://spool/prod-us"
    doctor, *others = commands_and_nothing_else(look)
    where = {"GPU_LEDGER_HOME": "my-ledger", "CLUSTER": CLUSTER_ID}
    typed(tmp_path, f"{doctor.split('#')[0]} || test $? = 1", where)
    typed(tmp_path, "\n".join(others), where)


def test_the_portal_gets_its_review_clusters() -> None:
    """`servers/test_portal_reviews` sends the review of the same page to an API server."""
    [settings] = of(PORTAL, "toml")
    assert CLUSTER_ID in parse_settings(settings).review_clusters


def test_the_settings_of_alerts_are_valid() -> None:
    [settings] = of("how-to/alert-the-provider.md", "toml")
    alerts = parse_settings(settings).alerts
    assert alerts.send
    assert alerts.alertmanagers[0].endswith(".svc:9095")


READ_ONLY = {
    "how-to/add-a-product-or-a-query.md",
    "how-to/alert-the-provider.md",
    "how-to/budgets.md",
    "how-to/keep-evidence-in-a-bucket.md",
    "how-to/return-idle-gpus.md",
    "how-to/run-on-kubernetes.md",
}
"""Pages whose blocks change a clone, a bucket or a real cluster."""


def test_every_page_with_commands_is_run() -> None:
    pages = {
        str(path.relative_to(DOCS)): {kind for kind, _ in blocks(str(path.relative_to(DOCS)))}
        for folder in ("how-to", "explanation", "tutorials")
        for path in (DOCS / folder).glob("*.md")
    }
    to_type = {page for page, kinds in pages.items() if kinds - {"console"}}
    assert to_type == {FAKE, HUB, WATCH, HEAL, CORRECT, OPERATOR, AMD, PORTAL} | READ_ONLY
    shown = {page for page, kinds in pages.items() if "console" in kinds}
    assert {page for page in shown if not page.startswith("tutorials/")} == {WALK}
    # A block without a language would not be run.
    assert {page for page, kinds in pages.items() if "" in kinds} == set()


def test_the_commands_that_the_repair_page_starts_exist(tmp_path: Path) -> None:
    block, attempts = of(HEAL, "sh")
    typed(tmp_path, "gpu-ledger init my-ledger")
    said = typed(tmp_path, attempts, {"GPU_LEDGER_HOME": "my-ledger"})
    assert "No hour of 2026-10 is due" in said
    makefile = (DOCS.parent / "Makefile").read_text()
    assert commands_in(block) == [["make", "ui"]]
    assert "\nui: " in makefile
    assert "gpu-ledger up --demo" in makefile
    assert FENCED.search(f"```sh\n{block}```")
