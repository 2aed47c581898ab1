"""Every error that the code can raise, by its code.

Put here: finding them all.
Not here: what their pages and messages say (`architecture/test_pages`, `tests/messages`).
"""

from __future__ import annotations

import importlib
import pkgutil

from domain.errors import LedgerError

PACKAGES = (
    "domain",
    "clients",
    "warehouse",
    "ingestion",
    "quality",
    "billing",
    "idle_pruner",
    "fake_gpu",
    "portal",
    "orchestration",
)
KINDS = {"WrongUse", "BadInput", "NotBillable", "CheckFailed", "EvidenceChanged", "CouldNotLook"}


def every_error() -> dict[str, type[LedgerError]]:
    """Import every module of ours and return the concrete errors by code."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if found.name != "orchestration.definitions":  # reads a home when it is imported
                importlib.import_module(found.name)
    concrete: dict[str, type[LedgerError]] = {}
    todo = list(LedgerError.__subclasses__())
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if kind.__name__ in KINDS or not kind.__module__.startswith(PACKAGES):
            continue
        assert "code" in kind.__dict__, f"{kind.__module__}.{kind.__name__} has no code of its own"
        other = concrete.setdefault(kind.code, kind)
        assert other is kind, f"{kind.code} names both {other.__name__} and {kind.__name__}"
    return concrete
