"""The dbt project as dbt parsed it, kept: reading its files takes seconds, the result a tenth.

Put here: what the kept file is valid for, and reading it.
Not here: parsing, or running what was parsed (`warehouse.dbt_run`).

dbt keeps such a file itself, for one place of the database: every home would parse the same project
again. Nothing of ours looks at that place while it is parsed.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.kept import keep, kept_in
from warehouse.project import dbt_project_dir, project_sha256

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

READERS = ("gpu-ledger", "dbt-core", "dbt-duckdb", "dbt-adapters", "dbt-common", "mashumaro")
"""Whose versions decide what is in the file."""

DIGEST_BYTES = 32
"""The file begins with the hash of what follows."""


def parsed_project(folder: Path, profile: str, parse: Callable[[], Manifest]) -> Manifest:
    """What is kept of this project under this profile; parsed and kept when it was never seen."""
    from dbt.contracts.graph.manifest import Manifest as Kept
    from dbt.parser.manifest import extended_mashumaro_encoder, extended_mashumuro_decoder

    known_by = _known_by(profile)
    path = kept_in(folder) / f"{known_by}.parsed"
    body = _whole(path)
    if body is not None:
        # What another version of a reader wrote may be no manifest: that is parsed again.
        with contextlib.suppress(Exception):
            manifest = Kept.from_msgpack(body, decoder=extended_mashumuro_decoder)
            manifest.build_parent_and_child_maps()
            return manifest
    manifest = parse()
    body = manifest.to_msgpack(extended_mashumaro_encoder)
    if _known_by(profile) == known_by:  # else a file was edited while it was parsed
        with contextlib.suppress(OSError):  # what cannot be kept is parsed again
            keep(path, hashlib.sha256(body).digest() + body)
    return manifest


def _whole(path: Path) -> bytes | None:
    """What was kept; nothing where a disk was full, the power went, or it may not be read."""
    try:
        kept = path.read_bytes()
    except OSError:
        return None
    body = kept[DIGEST_BYTES:]
    return body if hashlib.sha256(body).digest() == kept[:DIGEST_BYTES] else None


def _known_by(profile: str) -> str:
    """The project's place, too: it says where the seeds are."""
    digest = hashlib.sha256()
    readers = [f"{name} {version(name)}" for name in READERS]
    for part in (project_sha256(), str(dbt_project_dir()), profile, *readers):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:32]
