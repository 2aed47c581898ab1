"""The contents of each image, from its own lock: as any user, on a read-only root, without network.

Put here: one environment per component, built as in the Containerfile, and the command in it.
Not here: building images (`tests/release/test_built_images.py`); manifests (`test_deployment`).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from domain.interval import HOUR
from fake_gpu.clock import driven, epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve
from orchestration.demo.demo_home import make_home
from tests.portal_by_hand import portal_at
from tests.release.clean_machine import ALONE
from tests.release.image_context import LEDGER, components, requirements, write_context
from tests.servers.process import missing

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
USER = 1000650000  # in the range that OpenShift assigns
# Size of libraries and wheel, compiled; the base image is chosen by the site.
MEGABYTES_LIMIT = {
    "collector": 70,
    "portal": 120,
    "idle-pruner": 55,
    "amd-exporter": 40,
    "fake-gpu": 75,
    LEDGER: 1040,
}
# The host's root, read-only; the environment and one writable folder, at their own paths.
SANDBOX = """
umask 022
root=$1 environment=$2 writable=$3 user=$4 python=$5; shift 5
mount --bind / "$root"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for one in null zero random urandom; do
  : > "$root/dev/$one"; mount --bind "/dev/$one" "$root/dev/$one"
done
mkdir "$root/dev/shm"; mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mkdir -p "$root$environment" "$root$writable"
case $python in
  /usr*) ;;
  *) # a Python below somebody's own folder
    mount -t tmpfs -o mode=755 own "$root/$(echo "$python" | cut -d / -f 2)"
    mkdir -p "$root$python"; mount --bind "$python" "$root$python" ;;
esac
mount --bind "$environment" "$root$environment"; mount -o remount,bind,ro "$root$environment"
mount --bind "$writable" "$root$writable"
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec="$user:0" --groups= "$root" \
  env -i HOME="$writable" PATH="$environment/bin:/usr/bin:/bin" PYTHONDONTWRITEBYTECODE=1 "$@"
"""


def test_every_component_has_a_limit_of_its_size() -> None:
    assert set(components()) == set(MEGABYTES_LIMIT)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel") / "context"
    write_context("collector", folder)
    [found] = folder.glob("*.whl")
    return found


class Image:
    """The environment of one component, and a volume that any user of group 0 may write."""

    def __init__(self, component: str, folder: Path, wheel: Path) -> None:
        self.component = component
        self.environment, self.volume, self.root = (
            folder / name for name in ("environment", "volume", "root")
        )
        for made in (self.volume, self.root):
            made.mkdir()
        self.volume.chmod(0o770)
        os.chown(self.volume, -1, 0)
        uv = str(Path(sys.executable).with_name("uv"))
        (folder / "requirements.txt").write_text(requirements(component))
        subprocess.run([uv, "venv", "-q", "-p", sys.executable, self.environment], check=True)
        install = [uv, "pip", "install", "-q", "-p", self.environment / "bin/python", "--no-deps"]
        locked = ["--require-hashes", "-r", folder / "requirements.txt"]
        subprocess.run([*install, *locked], check=True)
        subprocess.run([*install, wheel], check=True)
        _, _, after = CONTAINERFILE.partition("/dist/*.whl \\\n && ")
        removes_and_compiles, _, _ = after.partition("\n\n")
        here = removes_and_compiles.replace("/opt/gpu-ledger", str(self.environment))
        subprocess.run(["/bin/sh", "-ec", here], check=True)
        for above in (folder, *list(folder.parents)[:-2]):
            above.chmod(above.stat().st_mode | 0o011)  # the user may enter the folder

    def run(self, *arguments: str | Path, status: int = 0, clock_url: str = "") -> str:
        """Run the command of the image; with the clock of a simulated fleet it reaches the host."""
        clock = ["env", f"GPU_LEDGER_NOW={clock_url}"] if clock_url else []
        command = [*clock, *entrypoint(self.component), *arguments]
        return self.run_program(*command, status=status, is_alone=not clock_url)

    def run_python(self, text: str, *arguments: str) -> str:
        return self.run_program("python", "-P", "-c", text, *arguments)

    def run_program(self, *program: str | Path, status: int = 0, is_alone: bool = True) -> str:
        """Run a program of the environment as an arbitrary user."""
        parts = [self.root, self.environment, self.volume, USER, sys.base_prefix, *program]
        command = ["unshare", "-m", "-p", "-i", "-u", "--fork", "--kill-child"]
        command += ["--propagation", "private", *(("-n", sys.executable, "-c", ALONE) * is_alone)]
        command += ["/bin/sh", "-ec", SANDBOX, "sh", *map(str, parts)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=400)
        assert ran.returncode == status, f"{program}\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}"
        return ran.stdout + ran.stderr

    def own_volume(self) -> None:
        """Give the files of the volume to the user, as the cluster's `fsGroup` does."""
        for path in (self.volume, *self.volume.rglob("*")):
            os.chown(path, USER, 0)

    @property
    def megabytes(self) -> int:
        files = (path for path in self.environment.rglob("*") if not path.is_symlink())
        return sum(path.stat().st_size for path in files) // 1_000_000


def entrypoint(component: str) -> Sequence[str]:
    """The command of the component's stage, or of the stage that all of them begin with."""
    stages = dict(re.findall(r"^FROM \S+ AS (\S+)\n((?:(?!FROM ).*\n)*)", CONTAINERFILE, re.M))
    found = re.findall(r"^ENTRYPOINT \[(.*)\]$", stages["component"] + stages[component], re.M)
    return shlex.split(found[-1].replace(",", " "))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Callable[[str], Image]:
    if os.geteuid() != 0 or not all(shutil.which(name) for name in ("unshare", "setpriv")):
        missing("only root can make a sandbox with another user here")
    return cache(lambda component: Image(component, tmp_path_factory.mktemp(component), wheel))


def small(image: Image) -> Image:
    assert image.megabytes <= MEGABYTES_LIMIT[image.component], image.component
    return image


def test_the_ledger_bills_a_month(image: Callable[[str], Image]) -> None:
    ledger = small(image(LEDGER))
    said = ledger.run("demo", "--scenario", "thin_line", "--home", ledger.volume / "home")
    assert "4.74" in said
    assert "17.38" in said
    refused = ledger.run("init", "/usr/ledger", status=3)  # the root is read-only
    assert "Read-only file system" in refused


UP = """
import json, re, signal, subprocess, sys, time
from urllib.request import HTTPCookieProcessor, Request, build_opener
up = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
said = iter(up.stdout.readline, "")
address = next(found[1] for line in said if (found := re.match(r"Dagster is at (\\S+)", line)))
pages = build_opener(HTTPCookieProcessor())
pages.open(address)  # begins a session
query = "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy } } } }"
asked = Request(
    re.match("http://[^/]+", address)[0] + "/graphql",
    json.dumps({"query": query}).encode(),
    {"Content-Type": "application/json"},
)
deadline = time.monotonic() + 120
while time.monotonic() < deadline:
    health = json.load(pages.open(asked))["data"]["instance"]["daemonHealth"]
    unhealthy = [one["daemonType"] for one in health["allDaemonStatuses"] if not one["healthy"]]
    if not unhealthy:
        break
    time.sleep(0.2)
print("unhealthy:", unhealthy)
up.send_signal(signal.SIGINT)
print("ended with", up.wait(60))
"""


def test_the_ledger_serves_dagster(image: Callable[[str], Image]) -> None:
    ledger = image(LEDGER)
    home = ledger.volume / "schedules"
    ledger.run("init", home)
    command = [*entrypoint(LEDGER), "up", "--home", str(home), "--port", "3000"]
    said = ledger.run_python(UP, *command)
    assert "unhealthy: []" in said
    assert "ended with 0" in said


def test_the_portal_shows_a_tenants_page(image: Callable[[str], Image]) -> None:
    portal = small(image("portal"))
    made = portal_at(portal.volume)
    portal.own_volume()
    asks = (
        "import sys, threading, time, urllib.error, urllib.request as u\n"
        "from orchestration.cli.main import main\n"
        "def ask():\n"
        "    for _ in range(200):\n"
        "        time.sleep(0.1)\n"
        "        try:\n"
        "            r = u.Request('http://127.0.0.1:8443/tenants/vision', headers={\n"
        f"                'Authorization': 'Bearer {made.tokens['vision']}'}})\n"
        "            print(u.urlopen(r).read().decode()); break\n"
        "        except urllib.error.HTTPError as e:\n"
        "            print(e.code, e.read().decode()); break\n"
        "        except OSError:\n"
        "            continue\n"
        "    import os; sys.stdout.flush(); os._exit(0)\n"
        "threading.Thread(target=ask, daemon=True).start()\n"
        f"sys.argv = ['gpu-ledger', 'portal', '--home', {str(made.home.path)!r}]\n"
        "main()\n"
    )
    said = portal.run_python(asks)
    assert "12.00 USD" in said


def test_the_collector_writes_its_journal(image: Callable[[str], Image]) -> None:
    collector = small(image("collector"))
    fleet = build_fleet(load_scenario("thin_line"))
    start = epoch(fleet.started_at)
    cluster = fleet.clusters[0].cluster_id
    with serve(fleet, driven(start)) as running:
        home = make_home(
            collector.volume / "home", fleet, running.thanos_url, running.kubernetes_urls
        )
        collector.own_volume()
        arguments = ("collect", cluster, "--drive-to", f"{start + HOUR:%Y-%m-%dT%H}")
        clock_url = f"{running.control_url}/-/clock"
        collector.run(*arguments, "--home", home.path, clock_url=clock_url)
    segments = list(home.path.rglob(f"*{cluster}*/**/*.jsonl"))
    assert segments
    assert {path.stat().st_uid for path in segments} == {USER}


def test_the_idle_pruner_looks_for_its_prometheus(image: Callable[[str], Image]) -> None:
    pruner = small(image("idle-pruner"))
    (pruner.volume / "config").write_text(KUBECONFIG)
    (pruner.volume / "config").chmod(0o644)
    options = ("--kubeconfig", pruner.volume / "config", "--prometheus-url", "http://127.0.0.1:1")
    said = pruner.run(*options, status=3)
    assert "127.0.0.1:1" in said
    assert "No workload is stopped." in pruner.run("list", "--records", pruner.volume / "none")


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:2"}}]
users: [{name: u, user: {}}]
"""


def test_the_agent_of_simulated_gpus_checks_its_topology(image: Callable[[str], Image]) -> None:
    agent = small(image("fake-gpu"))
    topology = agent.volume / "topology.yml"
    shutil.copy(ROOT / "deploy" / "fake-gpu" / "base" / "topology.yml", topology)
    topology.chmod(0o644)
    assert "NVIDIA-A100-SXM4-40GB" in agent.run("fake", "cluster", "check", topology)
    # Everything that the agent imports is in the image.
    said = agent.run_python("import fake_gpu.cluster.agent, fake_gpu.cluster.plugin; print('ok')")
    assert said == "ok\n"


def test_the_amd_exporter_says_that_no_source_works(image: Callable[[str], Image]) -> None:
    exporter = small(image("amd-exporter"))
    said = exporter.run("--once", status=3)
    assert 'amd_gpu_exporter_source_problem{reason="not_found",source="amd-smi"} 1.0' in said
