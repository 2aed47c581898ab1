"""Writes the build context of an image: `python -m tests.release.image_context COMPONENT FOLDER`.

Put here: the wheel, the locked requirements with hashes, and the list of them (SBOM, CycloneDX).
Not here: the images themselves (`deploy/Containerfile`).

The same commit gives the same bytes; with `--timestamp` the images are equal as well.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEDGER = "ledger"
"""Its requirements are those of the package; every other component has a dependency group."""


def components() -> list[str]:
    """Every component with an image, by name."""
    text = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
    return sorted(re.findall(r"^FROM component AS (.+)$", text, re.MULTILINE))


def export(component: str, *options: str) -> str:
    """The locked packages of a component in the format of `uv export`."""
    chosen = ["--no-default-groups"] if component == LEDGER else ["--only-group", component]
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "export", "--quiet", "--frozen", "--no-emit-project", *chosen, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def requirements(component: str) -> str:
    return export(component, "--no-header", "--no-annotate")


def bill_of_materials(component: str) -> str:
    """The SBOM of a component in CycloneDX, without its timestamp and serial number."""
    document = json.loads(export(component, "--format", "cyclonedx1.5"))
    del document["serialNumber"], document["metadata"]["timestamp"]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    document["metadata"]["component"] |= {"name": f"gpu-ledger/{component}", "version": version}
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def write_context(component: str, folder: Path) -> None:
    """Write all files that the Containerfile copies, and no others."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "requirements.txt").write_text(requirements(component), encoding="utf-8")
    (folder / "sbom.json").write_text(bill_of_materials(component), encoding="utf-8")
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (folder / ".gitignore").unlink(missing_ok=True)


if __name__ == "__main__":
    write_context(sys.argv[1], Path(sys.argv[2]))
