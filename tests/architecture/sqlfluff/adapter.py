"""A replacement of dbt's `adapter` for sqlfluff, which parses the models without dbt.

Put here: a dispatched macro as a call of its own name; sqlfluff needs no more to check a model.
Not here: the results of macros (`dbt/macros/`).
"""

from __future__ import annotations

from collections.abc import Callable


def dispatch(name: str, package: str = "") -> Callable[..., str]:
    """`{{ seconds('x') }}` becomes `seconds(x)`."""
    del package
    return lambda *arguments, **_: f"{name}({', '.join(map(str, arguments))})"
