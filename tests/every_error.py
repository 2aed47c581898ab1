"""Every error that the code can raise, by its code.

Put here: finding them all.
Not here: their pages and messages (`architecture/test_pages`, `tests/messages`).
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
DEFINITIONS = "orchestration.dagster_code.definitions"  # reads a home when it is imported
KINDS = {
    "WrongUse",
    "BadInput",
    "NotBillable",
    "CheckFailed",
    "EvidenceChanged",
    "TemporarilyUnavailable",
}


def every_error() -> dict[str, list[type[LedgerError]]]:
    """Import every module of ours and return the concrete errors of each code, by name.

    Errors with one remedy share a code and its page.
    """
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if found.name != DEFINITIONS:
                importlib.import_module(found.name)
    concrete: dict[str, list[type[LedgerError]]] = {}
    todo = list(LedgerError.__subclasses__())
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if kind.__name__ in KINDS or not kind.__module__.startswith(PACKAGES):
            continue
        assert kind.code != LedgerError.code, f"{kind.__module__}.{kind.__name__} has no code"
        concrete.setdefault(kind.code, []).append(kind)
    for code, kinds in concrete.items():
        exits = {kind.exit_code for kind in kinds}
        assert len(exits) == 1, f"{code} has several exit codes: {exits}"
        kinds.sort(key=lambda kind: kind.__name__)
    return concrete
