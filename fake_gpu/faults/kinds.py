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


JOB = Parameter("job", "text", "", "only targets of this job; every job when empty")
NODE = Parameter("node", "text", "", "only this node; every node when empty")
NAMESPACE = Parameter("namespace", "text", "", "only this namespace; every one when empty")
METRIC = Parameter("metric", "text", "", "only this metric; every one when empty")
REPLICA = Parameter("replica", "number", 0, "which Prometheus replica, from 0")
POD = Parameter("pod", "text", "", "only pods with this prefix of the name; empty: all pods")
SHARE = Parameter("share", "share", Fraction(1), "how much of it, drawn with the fault's seed")
REQUESTS = Parameter("requests", "number", 1, "how many requests of the time meet it; 0: all")


def kind(name: str, codes: str, side: Side, doc: str, *parameters: Parameter) -> FaultKind:
    return FaultKind(name, tuple(codes.split()), side, doc, parameters)
