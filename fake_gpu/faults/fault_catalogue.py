"""Every fault that a scenario can have, by name.

Put here: the one list; the reference in docs/ is generated from it.
Not here: the entries (`samples`, `kubernetes`, `fleet`), the effects, or the counters (`ledger`).
"""

from __future__ import annotations

from fake_gpu.faults.fleet import FLEET
from fake_gpu.faults.kinds import FaultKind, Parameter, Side
from fake_gpu.faults.kubernetes import KUBERNETES
from fake_gpu.faults.samples import SAMPLES

__all__ = ["CATALOGUE", "FaultKind", "Parameter", "Side"]

CATALOGUE: dict[str, FaultKind] = {kind.name: kind for kind in (*SAMPLES, *KUBERNETES, *FLEET)}
