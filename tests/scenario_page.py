"""The reference of the scenario file, generated from its schema.

Put here: walking the dataclasses, and writing the page.
Not here: the meaning of the keys, which is beside each of them (`fake_gpu.scenario.spec`).
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Literal, get_args, get_origin

from fake_gpu.faults.fault_catalogue import CATALOGUE, Parameter
from fake_gpu.fleet.hardware import products, profiles
from fake_gpu.scenario.schema import Scalar, Shaped, yaml_name
from fake_gpu.scenario.spec import Scenario
from fake_gpu.scenario.trace import COLUMNS
from fake_gpu.scenario.trace_nodes import DEFAULT_AMD_PRODUCT, DEFAULT_PRODUCT
from tests import fault_codes

_HEAD = """\
# The scenario file

A scenario is one YAML file. This page is generated from the code that reads it. An unknown key is
an error; all errors are listed with their lines. `gpu-ledger fake check FILE` validates a file and
prints the simulated clusters; `gpu-ledger fake show NAME` prints a scenario of the library.

- Times are written `2026-10-01T00:00:00Z`, or relative to the scenario's start: `+2h30m`.
- Durations are written `90s`, `5m`, `2h30m`, `1d`; a bare number is seconds.
- Random durations are written `40m` (fixed), `10m..2h` (uniform between the two), `~1h`
  (exponential with this mean) or `30m~1.2` (log-normal with this median and spread).
- Utilisation is written in percent (`80`, `10-30`), as `idle`, `busy` or `burst`, or in phases:
  `{phases: [{time: 1h, utilisation: 80}, {time: 1h, utilisation: 0}], repeat: 5, then: hold}`. The
  notation of the design document is also valid, directly or after a `|`:
  `{ { time: "1h" utilization: 80 }, { time: "1h" utilization: 0 } repeat: 5 }`.
- Shares are written `0.2`, `20%` or `1/5`.
- All random values are calculated from `seed` and from names. An added workload therefore changes
  no other workload, and the same file gives the same fleet on every machine.
"""

_SIDES = {
    "fleet": "events of the fleet",
    "samples": "responses of Thanos",
    "kubernetes": "responses of the API servers",
}


def scenario_page() -> str:
    """The page `docs/reference/scenario-file.md`; a test compares the two."""
    parts = [_HEAD]
    for kind, path in _records(Scenario, ""):
        parts.append(_section(kind, path))
    parts += [_faults(), _codes(), _trace(), _products()]
    return "\n".join(parts)


def _records(kind: type, path: str, seen: set[type] | None = None) -> Iterator[tuple[type, str]]:
    """Every mapping of the file, in the order of the file."""
    seen = set() if seen is None else seen
    if kind in seen:
        return
    seen.add(kind)
    yield kind, path
    hints = typing.get_type_hints(kind, include_extras=True)
    for entry in dataclasses.fields(kind):
        inner, suffix = _inner(hints[entry.name])
        if dataclasses.is_dataclass(inner) and isinstance(inner, type):
            name = yaml_name(entry.name)
            yield from _records(inner, f"{path}.{name}{suffix}" if path else name + suffix, seen)


def _inner(hint: Any) -> tuple[Any, str]:
    origin = get_origin(hint)
    if origin is typing.Annotated:
        return None, ""
    if origin is types.UnionType or origin is typing.Union:
        return _inner(next(a for a in get_args(hint) if a is not type(None)))
    if origin is tuple:
        return get_args(hint)[0], "[]"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return get_args(hint)[1], ".*"
    return hint, ""


def _section(kind: type, path: str) -> str:
    hints = typing.get_type_hints(kind, include_extras=True)
    title = f"`{path}`" if path else "The file"
    lines = [f"## {title}", "", "| key | value | default | meaning |", "|---|---|---|---|"]
    for entry in dataclasses.fields(kind):
        cells = (
            f"`{yaml_name(entry.name)}`",
            _what(hints[entry.name]),
            _default(entry),
            str(entry.metadata.get("doc", "")),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _what(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is typing.Annotated:
        extra = next(e for e in get_args(hint)[1:] if isinstance(e, Scalar | Shaped))
        return extra.notation.removeprefix("write ")
    if origin is types.UnionType or origin is typing.Union:
        return _what(next(a for a in get_args(hint) if a is not type(None)))
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    if origin is tuple:
        return "list of " + _what(get_args(hint)[0])
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return "{name: " + _what(get_args(hint)[1]) + "}"
    names = {str: "text", int: "number", bool: "true or false"}
    return names.get(hint, "keys of its own")


def _default(entry: dataclasses.Field[Any]) -> str:
    if shown := entry.metadata.get("shown"):
        return f"`{shown}`"
    if entry.default_factory is not dataclasses.MISSING:
        return ""
    if entry.default is dataclasses.MISSING:
        return "needed"
    if entry.default is None or entry.default == "":
        return ""
    value = entry.default
    assert isinstance(value, str | int), f"{entry.name}: say how its default is written (`shown`)"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _faults() -> str:
    lines = [
        "## `faults[]`",
        "",
        "Each fault is one line: `- {fault: NAME, cluster: …, from: …, until: …, seed: …, …}`. "
        "Without `cluster` a",
        "fault affects all clusters; without `from` and `until`, the whole time. Without `seed`, "
        "its seed is",
        "calculated from that of the scenario. The codes are those of the table below.",
        "",
    ]
    for side, title in _SIDES.items():
        lines += [
            f"### {title[0].upper()}{title[1:]}",
            "",
            "| fault | code | effect | parameters |",
        ]
        lines.append("|---|---|---|---|")
        for fault in CATALOGUE.values():
            if fault.side == side:
                parameters = "; ".join(
                    f"`{p.name}` ({_parameter_notation(p) or 'empty'}): {p.doc}"
                    for p in fault.parameters
                )
                codes = " ".join(fault.codes)
                lines.append(f"| `{fault.name}` | {codes} | {fault.doc} | {parameters} |")
        lines.append("")
    return "\n".join(lines)


def _codes() -> str:
    lines = [
        "### Codes",
        "",
        "Each code names a problem of real sources. A star marks the problems that most often",
        "falsify a bill without an error. A problem without a fault is part of a scenario of the",
        "library.",
        "",
        "| code | problem | faults | scenarios |",
        "|---|---|---|---|",
    ]
    for code in (*fault_codes.SAMPLES, *fault_codes.KUBERNETES):
        faults = ", ".join(f"`{name}`" for name in code.faults) or code.otherwise
        stories = ", ".join(f"`{name}`" for name in code.stories)
        star = "★" if code.is_grave else ""
        lines.append(f"| {code.code}{star} | {code.what} | {faults} | {stories} |")
    lines += [
        "",
        "Defects that a simulator must not have, and the test that excludes each:",
        "",
        "| code | defect | test |",
        "|---|---|---|",
    ]
    lines += [f"| {code} | {what} | `{test}` |" for code, what, test in fault_codes.FAKE]
    return "\n".join([*lines, ""])


_TRACE = """\
## A trace of real pods

A trace is a CSV file of pods: `workload_trace: file.csv` in a scenario, or in place of a scenario
on the command line. Columns, in any order:

    {columns}

Times are whole seconds since the epoch or `2026-10-01T00:00:00Z`; milliseconds are
refused. A fraction of a second is rounded outwards, with a warning: starts down, `finished_at` up.
An empty cell has a meaning:

- `node`: the scheduler chooses the node.
- `scheduled_at`: the pod was never bound.
- `started_at`: the pod never ran.
- `finished_at`: the pod still runs.

`phase` is the phase at the end, `Succeeded` or `Failed`. Any other value is a pod that was deleted
while it ran.

Rows with the same `uid`, or without UIDs with the same name and `created_at`, are one pod with
several resources. They may differ only in `resource` and `count`. Two pods of one name cannot exist
at the same time.

A trace without a scenario gets the nodes that its pods need. A node that the trace names has the
devices for all its rows at their largest simultaneous use, with a MIG layout for each card. An
empty `gpu_product` is `{nvidia}`, or the first product that has the requested MIG profiles; for
`amd.com/gpu` it is `{amd}`. Replicas of shared cards and AMD partitions require a scenario
with nodes and `workload_trace`.

## Other configurations

Configurations of the design document (`nodes:`) and of the fake GPU operator (`nodePools:`, also in
its ConfigMap under `topology.yml`) are read without changes. A pod whose containers have different
GPUs is one pod with these containers. The keys `otherDevices`, `resources`, `numa`, `overrides` and
`gpuOperator` of the operator have no effect on GPUs; `gpu-ledger fake check` warns about keys that
are not empty.
"""


def _trace() -> str:
    return _TRACE.format(columns=",".join(COLUMNS), nvidia=DEFAULT_PRODUCT, amd=DEFAULT_AMD_PRODUCT)


def _products() -> str:
    lines = ["## Products", "", "| product | memory (MiB) | MIG profiles |", "|---|---|---|"]
    for product in products().values():
        names = ", ".join(profiles(product.mig_family)) if product.mig_family else "none"
        lines.append(f"| `{product.product}` | {product.memory_mib} | {names} |")
    return "\n".join(lines) + "\n"


def _parameter_notation(parameter: Parameter) -> str:
    """The default of a parameter in the notation of the file."""
    value = parameter.default
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(value) + "]"
    return f"{value}s" if parameter.kind == "duration" else str(value)
