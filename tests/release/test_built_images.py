"""The image of the collector, built twice by buildah, is one image; its command runs as any user.

Put here: a base of Debian packages, the builds, and the root file system of the image.
Not here: the libraries of the other components, which are built in the same way
(`tests/servers/test_images.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.exploration import one_long_case
from tests.release.image_context import ROOT, write_context
from tests.servers.build import cache_folder

pytestmark = [pytest.mark.explore, one_long_case]

COMPONENT = "collector"
USER = 1000650000  # in the range that OpenShift assigns
MEGABYTES_LIMIT = 70  # the libraries, which are all that the base has not
PACKAGES = "ca-certificates,python3,python3-venv,python3-pip"
SANDBOX = """
root=$1 user=$2 volume=$3; shift 3
mount --bind "$root" "$root"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount --bind "$volume" "$root/var/lib/gpu-ledger"
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec="$user:0" --groups= "$root" "$@"
"""


class Buildah:
    """Buildah with a storage of its own."""

    def __init__(self, folder: Path) -> None:
        self._options = ["--storage-driver", "vfs", "--root", folder / "storage"]
        self._options += ["--runroot", folder / "run"]

    def __call__(self, *arguments: object) -> str:
        command = ["buildah", *map(str, (*self._options, *arguments))]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert ran.returncode == 0, f"{command}\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}"
        return ran.stdout.strip()


@pytest.fixture
def buildah(tmp_path: Path) -> Iterator[Buildah]:
    missing = [name for name in ("buildah", "mmdebstrap") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip("needs root, and apt-get install buildah mmdebstrap")
    yield Buildah(tmp_path)
    shutil.rmtree(tmp_path / "storage")  # each layer is a copy of the whole file system


def debian() -> Path:
    """The root file system of a small Debian with Python, made once."""
    made = cache_folder() / "debian-python.tar"
    if not made.is_file():
        aside = made.with_suffix(f".{os.getpid()}.tar")
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}"]
        subprocess.run([*command, "bookworm", aside], check=True)
        aside.rename(made)
    return made


def test_two_builds_give_one_image_that_any_user_runs(buildah: Buildah, tmp_path: Path) -> None:
    base = buildah("from", "scratch")
    buildah("add", "--quiet", base, debian(), "/")
    buildah("commit", "--quiet", "--timestamp", "0", base, "localhost/base")
    write_context(COMPONENT, tmp_path / "context")
    options = ["--isolation", "chroot", "--network", "host", "--timestamp", "0", "--no-cache"]
    # The certificate authorities that this machine trusts.
    options += [
        "--volume",
        "/etc/ssl/certs:/etc/ssl/certs:ro",
        "--build-arg",
        "BASE=localhost/base",
    ]
    options += ["--file", "deploy/Containerfile", "--target", COMPONENT]
    for tag in ("first", "second"):
        buildah("build", "--quiet", *options, "--tag", f"localhost/{tag}", tmp_path / "context")
    first, second = (
        json.loads(buildah("inspect", "--type", "image", f"localhost/{tag}"))
        for tag in ("first", "second")
    )
    assert first["FromImageDigest"] == second["FromImageDigest"]
    config = first["OCIv1"]["config"]
    assert config["User"] == "10001:0"

    root = Path(buildah("mount", buildah("from", "localhost/first")))
    environment = root / "opt" / "gpu-ledger"
    files = (path for path in environment.rglob("*") if not path.is_symlink())
    assert sum(path.stat().st_size for path in files) <= MEGABYTES_LIMIT * 1_000_000
    assert json.loads((environment / "sbom.json").read_text())["components"]
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume").chmod(0o770)
    program = ["env", "-i", *config["Env"], *config["Entrypoint"]]
    shell = "id -u && gpu-ledger init /usr/home || gpu-ledger init /var/lib/gpu-ledger/home"
    place = ["sh", str(root), str(USER), str(tmp_path / "volume")]
    said = ""
    for command in ([*program, "--version"], ["env", "-i", *config["Env"], "sh", "-c", shell]):
        isolated = ["unshare", "-m", "-n", "-p", "--fork", "--propagation", "private"]
        ran = subprocess.run(
            [*isolated, "sh", "-ec", SANDBOX, *place, *command], capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        said += ran.stdout + ran.stderr
    assert "0.1.0" in said
    assert str(USER) in said
    assert "Read-only file system" in said
    assert (tmp_path / "volume" / "home" / "config.toml").stat().st_uid == USER
