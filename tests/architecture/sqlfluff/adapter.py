"""What sqlfluff takes for dbt's `adapter` while it reads the models' layout.

Put here: a dispatched macro as a call of its own name, which is enough to lint the model around it.
Not here: what macros become (`dbt/macros/`).
"""

from __future__ import annotations

from collections.abc import Callable


def dispatch(name: str, package: str = "") -> Callable[..., str]:
    """`{{ seconds('x') }}` reads as `seconds(x)`."""
    del package
    return lambda *arguments, **_: f"{name}({', '.join(map(str, arguments))})"
