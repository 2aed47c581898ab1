"""A machine on which nothing of ours is: the wheel by pip, an empty home, no name that resolves.

Put here: `python -m tests.release.clean_machine`, which CI runs after the tests.
Not here: what is in the wheel (`test_wheel`), or the fresh clone: CI's own folder is one.

Packages are installed first, as the README says, over the network. Then there is none: the demo
runs where this machine itself is all that can be reached (`unshare`), and where that is not
allowed, every question for a host's address is refused in every Python process that it starts.
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
BILLED = ("4.74", "17.38")  # what a pencil says of it
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
        raise OSError(f"somebody asked for the address of {host}")
    return real(host, *rest, **named)
socket.getaddrinfo = none
def refused(host, *rest):
    if host not in known and host != socket.gethostname():
        raise OSError(f"somebody asked for the address of {host}")
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
    """An environment with what pip makes of the checkout, under the constraints."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "pip install . -c constraints.txt" in readme
    run([sys.executable, "-m", "venv", str(folder / "venv")])
    python = folder / "venv" / "bin" / "python"
    run([str(python), "-m", "pip", "install", "-q", ".", "-c", "constraints.txt"])
    return python


def by_itself() -> list[str]:
    """What makes a command run in an empty network; nothing, where the system does not allow it."""
    before = ["unshare", "-rn", sys.executable, "-c", ALONE]
    with suppress(OSError):
        if subprocess.run([*before, sys.executable, "-c", ""], capture_output=True).returncode == 0:
            return before
    return []


def demo(folder: Path, python: Path) -> str:
    """The demo in an empty home, with no caches, no settings, and no names."""
    (folder / "home").mkdir()
    (folder / "no_names").mkdir()
    (folder / "no_names" / "sitecustomize.py").write_text(NO_NAMES)
    alone = {"HOME": str(folder / "home"), "PYTHONPATH": str(folder / "no_names")}
    began = time.monotonic()
    command = [str(python.with_name("gpu-ledger")), "demo", "--scenario", SCENARIO]
    before = by_itself()
    said = run([*before, *command], alone, folder)
    how = "in a network of its own" if before else "with no name resolved"
    print(f"gpu-ledger demo --scenario {SCENARIO}, {how}: {time.monotonic() - began:.0f} s")
    return said


def run(command: list[str], alone: dict[str, str] | None = None, folder: Path = ROOT) -> str:
    """Run to its end; with `alone` it inherits nothing but the path to programs."""
    # Installing reaches the package index in whatever way this machine does.
    given = dict(os.environ) if alone is None else {"PATH": os.environ["PATH"], **alone}
    ran = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True)
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


if __name__ == "__main__":
    main()
