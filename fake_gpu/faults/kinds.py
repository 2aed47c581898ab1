"""Kinds of faults: name, the part of the simulator that applies it, parameters.

Put here: the form of the catalogue's entries, and parameters that many share.
Not here: the entries (`samples`, `kubernetes`, `fleet` beside this), or effects.

`side` names that part: `samples` is the Thanos view with everything behind it,
`kubernetes` the API server, `fleet` the history itself. Parameters have the values of these
Python types: text `str`, number `int`, share `Fraction`, duration `int` seconds, flag `bool`,
words `tuple[str, ...]`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

Side = Literal["samples", "kubernetes", "fleet"]
ParameterKind = Literal["text", "number", "share", "duration", "flag", "words"]


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    kind: ParameterKind
    default: object
    doc: str


@dataclass(frozen=True, slots=True)
class FaultKind:
    name: str
    codes: tuple[str, ...]  # in the catalogue of faults that the project is built against
    side: Side
    doc: str
    parameters: tuple[Parameter, ...] = field(default=())

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)


JOB = Parameter("job", "text", "", "only targets of this job; empty: all jobs")
NODE = Parameter("node", "text", "", "only this node; empty: all nodes")
NAMESPACE = Parameter("namespace", "text", "", "only this namespace; empty: all namespaces")
METRIC = Parameter("metric", "text", "", "only this metric; empty: all metrics")
REPLICA = Parameter("replica", "number", 0, "number of the Prometheus replica, from 0")
POD = Parameter("pod", "text", "", "only pods whose name has this prefix; empty: all pods")
SHARE = Parameter(
    "share", "share", Fraction(1), "affected share, selected at random with the seed of the fault"
)
REQUESTS = Parameter(
    "requests", "number", 1, "number of affected requests; 0: all requests during the fault"
)


def kind(name: str, codes: str, side: Side, doc: str, *parameters: Parameter) -> FaultKind:
    return FaultKind(name, tuple(codes.split()), side, doc, parameters)
