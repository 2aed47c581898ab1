"""Kubernetes objects as YAML that people read before they apply it.

Put here: the one way in which objects are written.
Not here: the objects (`ingestion.acm`, `ingestion.kubernetes.collector_manifests`).
"""

from __future__ import annotations

from typing import Any

import yaml

WIDTH = 100


class _Readable(yaml.SafeDumper):
    """Texts of several lines stand as they are, below a `|`."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _text)


def yaml_text(document: Any) -> str:
    """One object, its keys in the order in which they were written."""
    text: str = yaml.dump(document, Dumper=_Readable, sort_keys=False, width=WIDTH)
    return text
