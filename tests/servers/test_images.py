"""The contents of each image, from its own lock: as any user, on a read-only root, without network.

Put here: one environment per component, built like its Containerfile, and the command in it.
Not here: building images, which needs an engine and a base; manifests (`test_deployment`).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.portal_by_hand import portal_at
from tests.release.clean_machine import ALONE
from tests.release.image_context import LEDGER, components, requirements, write_context
from tests.servers.process import missing

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
USER = 1000650000  # in the range that OpenShift assigns
# Size of libraries and wheel; the base image is chosen by the site.
MEGABYTES_LIMIT = {
    "collector": 100,
    "portal": 130,
    "idle-pruner": 60,
    "amd-exporter": 60,
    "fake-gpu": 80,
    LEDGER: 1050,
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
        for cleaning in re.findall(
            r"&& (find /opt/gpu-ledger/lib .*) \\\\\n", container_text(component)
        ):
            here = cleaning.replace("/opt/gpu-ledger", str(self.environment))
            subprocess.run(["/bin/sh", "-ec", here], check=True)
        for above in (folder, *list(folder.parents)[:-2]):
            above.chmod(above.stat().st_mode | 0o011)  # the user may enter the folder

    def run(self, *arguments: str | Path, status: int = 0) -> str:
        """Run the command of the image as an arbitrary user."""
        entry = entrypoint(self.component)
        parts = [self.root, self.environment, self.volume, USER, sys.base_prefix]
        parts += [*entry, *arguments]
        command = ["unshare", "-m", "-n", "-p", "-i", "-u", "--fork", "--kill-child"]
        command += ["--propagation", "private", sys.executable, "-c", ALONE, "/bin/sh", "-ec"]
        command += [SANDBOX, "sh", *map(str, parts)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=400)
        assert ran.returncode == status, f"{arguments}\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}"
        return ran.stdout + ran.stderr

    @property
    def megabytes(self) -> int:
        files = (path for path in self.environment.rglob("*") if not path.is_symlink())
        return sum(path.stat().st_size for path in files) // 1_000_000


def container_text(component: str) -> str:
    return (ROOT / "deploy" / component / "Containerfile").read_text(encoding="utf-8")


def entrypoint(component: str) -> Sequence[str]:
    [found] = re.findall(r"^ENTRYPOINT \[(.*)\]$", container_text(component), re.MULTILINE)
    return shlex.split(found.replace(",", " "))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Callable[[str], Image]:
    if os.geteuid() != 0 or not all(shutil.which(name) for name in ("unshare", "setpriv")):
        missing("only root can make a sandbox with another user here")
    return lambda component: Image(component, tmp_path_factory.mktemp(component), wheel)


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


def test_the_portal_shows_a_tenants_page(image: Callable[[str], Image]) -> None:
    portal = small(image("portal"))
    made = portal_at(portal.volume)
    for path in (portal.volume, *portal.volume.rglob("*")):
        os.chown(path, USER, 0)
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
    said = run_python(portal, asks)
    assert "12.00 USD" in said


def run_python(image: Image, text: str) -> str:
    """Run a program in the environment of an image, instead of its command."""
    parts = [image.root, image.environment, image.volume, USER, sys.base_prefix]
    parts += ["python", "-P", "-c", text]
    command = ["unshare", "-m", "-n", "-p", "-i", "-u", "--fork", "--kill-child"]
    command += ["--propagation", "private", sys.executable, "-c", ALONE, "/bin/sh", "-ec"]
    command += [SANDBOX, "sh", *map(str, parts)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return ran.stdout + ran.stderr


CONFIG = """
[clusters.c1.kubernetes]
url = "https://127.0.0.1:1"
"""


def test_the_collector_looks_for_its_api_server(image: Callable[[str], Image]) -> None:
    collector = small(image("collector"))
    home = collector.volume / "home"
    home.mkdir()
    (home / "config.toml").write_text(CONFIG)
    for path in (home, home / "config.toml"):
        os.chown(path, USER, 0)
    said = collector.run("collect", "c1", "--home", home, status=3)
    assert "SERVER-001 https://127.0.0.1:1" in said


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
    said = run_python(agent, "import fake_gpu.cluster.agent, fake_gpu.cluster.plugin; print('ok')")
    assert said == "ok\n"


def test_the_amd_exporter_says_that_no_source_works(image: Callable[[str], Image]) -> None:
    exporter = small(image("amd-exporter"))
    said = exporter.run("--once", status=3)
    assert 'amd_gpu_exporter_source_problem{reason="not_found",source="amd-smi"} 1.0' in said
