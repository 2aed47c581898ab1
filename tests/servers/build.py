"""Builds the real servers of the tests: once per pinned version, into the user's cache.

Put here: the pinned Go module of each server, and the place of its programs.
Not here: starting servers (the fixtures beside this file), or Debian's packages (`.ci/run`).

Run it as `python -m tests.servers.build [NAME …]`. An existing result is never rebuilt: the name of
its folder has the hash of all inputs.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
KUBERNETES = "1.37.1"
VERSION_FLAGS = " ".join(
    f"-X k8s.io/component-base/version.{name}={value}"
    for name, value in (
        ("gitVersion", f"v{KUBERNETES}"),
        ("gitMajor", "1"),
        ("gitMinor", KUBERNETES.split(".")[1]),
    )
)


@dataclass(frozen=True)
class Server:
    """One or more programs from one pinned Go module."""

    name: str
    packages: dict[str, str]  # program -> package path
    module: str = ""  # path@version, for modules that must be built inside their own folder
    flags: tuple[str, ...] = field(default=())
    source: str = ""  # the folder below go/, if its name differs from the server's

    @property
    def folder(self) -> Path:
        return HERE / "go" / (self.source or self.name)


SERVERS = (
    Server("etcd", {"etcd": "."}),
    Server(
        "kubernetes",
        {
            program: f"k8s.io/kubernetes/cmd/{program}"
            for program in ("kube-apiserver", "kube-scheduler")
        },
        flags=("-ldflags", VERSION_FLAGS),
    ),
    Server(
        "kube-controller-manager",
        {"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager"},
        flags=("-ldflags", VERSION_FLAGS),
        source="kubernetes",
    ),
    Server(
        "kubectl", {"kubectl": "k8s.io/kubernetes/cmd/kubectl"}, flags=("-ldflags", VERSION_FLAGS)
    ),
    Server("kube-state-metrics", {"kube-state-metrics": "k8s.io/kube-state-metrics/v2"}),
    Server("kube-state-metrics-2.20", {"kube-state-metrics-2.20": "k8s.io/kube-state-metrics/v2"}),
    Server(
        "prometheus",
        {"prometheus": "./cmd/prometheus", "promtool": "./cmd/promtool"},
        module="github.com/prometheus/prometheus@v0.315.0",
    ),
    # Without the tag it compiles, but panics at the first gRPC response.
    Server(
        "thanos",
        {"thanos": "./cmd/thanos"},
        module="github.com/thanos-io/thanos@v0.41.0",
        flags=("-tags", "slicelabels"),
    ),
    Server("versitygw", {"versitygw": "github.com/versity/versitygw/cmd/versitygw"}),
    Server("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    Server("device-manager", {"device-manager": "."}),
)


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "gpu-ledger" / "servers"


def key(server: Server) -> str:
    """A hash of all inputs of the build."""
    digest = hashlib.sha256(repr((server.packages, server.module, server.flags)).encode())
    if not server.module:
        for name in sorted(p.name for p in server.folder.iterdir()):
            digest.update(name.encode() + (server.folder / name).read_bytes())
    return digest.hexdigest()[:16]


def built(server: Server) -> Path:
    return cache_folder() / f"{server.name}-{key(server)}"


def program(name: str) -> Path | None:
    """The path of a built program, or None if it was not built here."""
    for server in SERVERS:
        if name in server.packages and (built(server) / ".complete").exists():
            return built(server) / name
    return None


def build(server: Server) -> Path:
    """Build in a temporary folder, then rename it: an interrupted build leaves nothing."""
    target = built(server)
    if (target / ".complete").exists():
        return target
    aside = target.with_suffix(f".{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    source = module_folder(server.module) if server.module else server.folder
    environment = {**os.environ, "GOWORK": "off", "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    for name, package in server.packages.items():
        command = ["go", "build", "-trimpath", *server.flags, "-o", str(aside / name), package]
        subprocess.run(command, cwd=source, env=environment, check=True)
    (aside / ".complete").write_text("")
    shutil.rmtree(target, ignore_errors=True)
    aside.rename(target)
    return target


def module_folder(module: str, within: Path | None = None) -> Path:
    """The folder of a module; `within` is a folder whose go.sum has its hash."""
    command = ["go", "mod", "download", "-json", module]
    answer = subprocess.run(command, cwd=within, check=True, capture_output=True, text=True)
    return Path(json.loads(answer.stdout)["Dir"])


def custom_resource(module: str, path: str) -> str:
    """The text of a file with custom resource definitions, from a module of `go/crds`."""
    return (module_folder(module, HERE / "go" / "crds") / path).read_text(encoding="utf-8")


def main(names: list[str]) -> int:
    if shutil.which("go") is None:
        print("servers: Go is not installed; tests that need a built server will say so.")
        return 1 if os.environ.get("CI") else 0
    wanted = [s for s in SERVERS if not names or s.name in names]
    for number, server in enumerate(wanted, 1):
        if (built(server) / ".complete").exists():
            print(f"servers: {number} of {len(wanted)}: {server.name} is built", flush=True)
            continue
        print(f"servers: {number} of {len(wanted)}: building {server.name} …", flush=True)
        started = time.monotonic()
        try:
            build(server)
        except subprocess.CalledProcessError as error:
            print(f"servers: {server.name} did not build: {error}", flush=True)
            return 1
        print(f"servers: {server.name} took {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
