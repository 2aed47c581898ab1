"""A machine on which nothing of ours is: the wheel by pip, an empty home, no name that resolves.

Put here: `python -m tests.release.clean_machine`, which CI runs after the tests.
Not here: what is in the wheel (`test_wheel`), or the fresh clone: CI's own folder is one.

Packages are installed first, over the network; then every question for a host's address is refused,
other than for this machine itself, in every Python process that the demo starts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCENARIO = "thin_line"
BILLED = ("4.74", "17.38")  # what a pencil says of it
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
    print(f"the wheel alone billed {' and '.join(BILLED)}, with no name resolved")


def installed(folder: Path) -> Path:
    """An environment with the wheel and what pip finds for it under the constraints."""
    uv = Path(sys.executable).with_name("uv")
    run([str(uv), "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT)])
    [wheel] = folder.glob("*.whl")
    run([sys.executable, "-m", "venv", str(folder / "venv")])
    python = folder / "venv" / "bin" / "python"
    constraint = str(ROOT / "constraints.txt")
    run([str(python), "-m", "pip", "install", "-q", str(wheel), "-c", constraint])
    return python


def demo(folder: Path, python: Path) -> str:
    """The demo in an empty home, with no caches, no settings, and no names."""
    (folder / "home").mkdir()
    (folder / "no_names").mkdir()
    (folder / "no_names" / "sitecustomize.py").write_text(NO_NAMES)
    alone = {"HOME": str(folder / "home"), "PYTHONPATH": str(folder / "no_names")}
    began = time.monotonic()
    said = run([str(python.with_name("gpu-ledger")), "demo", "--scenario", SCENARIO], alone, folder)
    print(f"gpu-ledger demo --scenario {SCENARIO}: {time.monotonic() - began:.0f} s")
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
