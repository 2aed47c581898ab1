"""An installation as on a new machine: the wheel with pip, an empty home, no network.

Put here: `python -m tests.release.clean_machine`, which CI runs after the tests.
Not here: the contents of the wheel (`test_wheel`), or a fresh clone, which CI's own folder is.

Packages are installed over the network first, as the README says. Then the demo runs in a network
namespace without connections (`unshare`). If the system does not permit that, every Python process
of the demo refuses to resolve names of other hosts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCENARIO = "thin_line"
BILLED = ("4.74", "17.38")  # calculated by hand
ALONE = """\
import fcntl, os, socket, struct, sys
with socket.socket() as s:  # raise the loopback of an empty network: SIOCSIFFLAGS, IFF_UP
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 1))
os.execv(sys.argv[1], sys.argv[1:])
"""
NO_NAMES = """\
import socket
known = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "", None)
real = socket.getaddrinfo
def none(host, *rest, **named):
    if (host.decode() if isinstance(host, bytes) else host) not in known:
        raise OSError(f"a process tried to resolve {host}")
    return real(host, *rest, **named)
socket.getaddrinfo = none
def refused(host, *rest):
    if host not in known and host != socket.gethostname():
        raise OSError(f"a process tried to resolve {host}")
    return "127.0.0.1"
socket.gethostbyname = refused
"""


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="clean_machine_"))
    try:
        python = installed(folder)
        said = demo(folder, python)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert all(amount in said for amount in BILLED), said
    print(f"the wheel alone billed {' and '.join(BILLED)}, with no network")


def installed(folder: Path) -> Path:
    """An environment with the checkout, installed by pip with the constraints."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "pip install . -c constraints.txt" in readme
    run([sys.executable, "-m", "venv", str(folder / "venv")])
    python = folder / "venv" / "bin" / "python"
    run([str(python), "-m", "pip", "install", "-q", ".", "-c", "constraints.txt"])
    return python


def isolation_prefix() -> list[str]:
    """The command prefix for an empty network; an empty list if the system does not permit one."""
    before = ["unshare", "-rn", sys.executable, "-c", ALONE]
    with suppress(OSError):
        if subprocess.run([*before, sys.executable, "-c", ""], capture_output=True).returncode == 0:
            return before
    return []


def demo(folder: Path, python: Path) -> str:
    """Run the demo in an empty home, without caches, settings and name resolution."""
    (folder / "home").mkdir()
    (folder / "no_names").mkdir()
    (folder / "no_names" / "sitecustomize.py").write_text(NO_NAMES)
    alone = {"HOME": str(folder / "home"), "PYTHONPATH": str(folder / "no_names")}
    began = time.monotonic()
    command = [str(python.with_name("gpu-ledger")), "demo", "--scenario", SCENARIO]
    before = isolation_prefix()
    said = run([*before, *command], alone, folder)
    how = "in a network of its own" if before else "with no name resolved"
    print(f"gpu-ledger demo --scenario {SCENARIO}, {how}: {time.monotonic() - began:.0f} s")
    return said


def run(command: list[str], alone: dict[str, str] | None = None, folder: Path = ROOT) -> str:
    """Run a command to its end; with `alone` it inherits only PATH from the environment."""
    # The installation needs this machine's settings for the package index.
    given = dict(os.environ) if alone is None else {"PATH": os.environ["PATH"], **alone}
    ran = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True)
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


if __name__ == "__main__":
    main()
