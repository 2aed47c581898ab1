"""The command line prints no control characters, and its files are readable by their owner only.

Put here: a real terminal (a pseudo-terminal), and the modes of files.
Not here: the text of the output (`test_cli_output`).
"""

from __future__ import annotations

import os
import pty
import re
import stat
import subprocess
import sys
from pathlib import Path

HOSTILE = "\x1b]0;title\x07\x1b[2J\x1b[31m\x9b2Kred\rover\x08\u202etxt.exe"
SPELLED = "\\x1b]0;title\\x07\\x1b[2J\\x1b[31m\\x9b2Kred\\rover\\x08\\u202etxt.exe"
DRAWN = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")  # colours and bars that gpu-ledger draws
PROGRAM = """
import sys
from orchestration.cli.output import emit, progress
from orchestration.cli.terminal import guard_terminals
guard_terminals()
hostile = sys.argv[1]
for output in ("table", "json", "csv"):
    emit([{"name": hostile, "count": 1}], output, title=hostile)
with progress("Reading") as report:
    report(1, 2, hostile)
print(hostile, file=sys.stderr)
"""


def on_a_terminal(*command: str) -> str:
    """Everything that a command writes to its terminal."""
    ours, theirs = pty.openpty()
    # With CI set, rich assumes no terminal, so it is not inherited.
    environment = {"TERM": "xterm", "COLUMNS": "300", "LINES": "50", "PATH": os.environ["PATH"]}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux's end of file
            part = b""
        if not part:
            break
        said += part
    process.wait()
    os.close(ours)
    return said.decode()


def unexplained(said: str) -> set[str]:
    """Control characters that are neither line ends nor drawn by gpu-ledger."""
    plain = DRAWN.sub("", said.replace("\r\n", "\n"))
    # A progress bar returns to the start of its line.
    return set(re.findall(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]", plain))


def test_no_control_character_of_a_name_reaches_a_terminal() -> None:
    said = on_a_terminal(sys.executable, "-c", PROGRAM, HOSTILE)
    assert unexplained(said) == set()
    assert "\x1b[2J" not in said
    assert said.count(SPELLED) >= 4


def test_no_control_character_of_an_error_reaches_a_terminal(tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("gpu-ledger"))
    missing = tmp_path / HOSTILE
    for arguments in (["usage", "--home", str(missing)], [HOSTILE]):
        said = on_a_terminal(program, *arguments)
        assert "\\x1b[2J" in said, arguments
        assert unexplained(said) == set(), arguments


def test_created_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "ledger"
    program = str(Path(sys.executable).with_name("gpu-ledger"))
    for arguments in (["init", str(home)], ["backup", str(tmp_path / "copy"), "--home", str(home)]):
        subprocess.run([program, *arguments], capture_output=True, check=True, umask=0o022)
    made = [home, *home.rglob("*"), *(tmp_path / "copy").rglob("*")]
    assert len(made) > 10
    for path in made:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))
