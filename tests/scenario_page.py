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

A scenario is one YAML file. This page is made from the code that reads it. Unknown keys are
refused; the error lists all problems, with their lines. `gpu-ledger fake check FILE` reads
a file and shows what comes of it; `gpu-ledger fake show NAME` prints one that works.

- Times are written `2026-10-01T00:00:00Z`, or relative to the scenario's start: `+2h30m`.
- Durations are written `90s`, `5m`, `2h30m`, `1d`; a bare number is seconds.
- Drawn durations are written `40m` (fixed), `10m..2h` (evenly between the two), `~1h` (exponential
  with this mean) or `30m~1.2` (log-normal with this median and spread).
- How busy something is, is written `80`, `10-30`, `idle`, `busy`, `burst`, or in phases:
  `{phases: [{time: 1h, utilisation: 80}, {time: 1h, utilisation: 0}], repeat: 5, then: hold}`. The
  design document's own notation stands as it is, although it is no YAML, bare or after a `|`:
  `{ { time: "1h" utilization: 80 }, { time: "1h" utilization: 0 } repeat: 5 }`.
- Shares are written `0.2`, `20%` or `1/5`.
- Everything that is drawn follows from `seed` and from names, so that adding a workload changes no
  other one, and the same file is the same fleet on every machine.
"""

_SIDES = {
    "fleet": "what really happens",
    "samples": "what Thanos says",
    "kubernetes": "what the API servers say",
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
    lines = [f"## {title}", "", "| key | what | default | meaning |", "|---|---|---|---|"]
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
        "Each is one line: `- {fault: NAME, cluster: …, from: …, until: …, seed: …, …}`. Without "
        "`cluster` it is about",
        "all, without `from` and `until` about the whole time; without `seed` one follows from the",
        "scenario's. The codes are those of the catalogue of faults that the project is built "
        "against.",
        "",
    ]
    for side, title in _SIDES.items():
        lines += [f"### {title[0].upper()}{title[1:]}", "", "| fault | code | what | parameters |"]
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
        "What would make a simulated fleet worthless, and the test that excludes it:",
        "",
        "| code | what would be wrong | test |",
        "|---|---|---|",
    ]
    lines += [f"| {code} | {what} | `{test}` |" for code, what, test in fault_codes.FAKE]
    return "\n".join([*lines, ""])


_TRACE = """\
## A trace of real pods

`workload_trace: file.csv` in a scenario, or the file itself where a scenario is asked for.
Columns, in any order:

    {columns}

Times are whole seconds since the epoch or `2026-10-01T00:00:00Z`; milliseconds are
refused. A fraction of a second is rounded outwards, with a warning: starts down, `finished_at` up.
An empty `node` lets the scheduler choose; an empty `scheduled_at` is a pod that never was bound, an
empty `started_at` one that never ran, an empty `finished_at` one that still runs.
`phase` is how it ended: `Succeeded`, `Failed`, or anything else for a
pod that was deleted while it ran.

Rows of one `uid` are one pod with several resources; without UIDs, rows of one name and one
`created_at` are. They differ in `resource` and `count` alone. A name is one pod's at a time.

A trace without a scenario gets nodes as it needs them. A node that is named has what all its rows
need at once, with a MIG layout for each card. An empty `gpu_product` is `{nvidia}`, or
for profiles that this one has not the first product that has them; for `amd.com/gpu` it is
`{amd}`. What no such node gives (replicas of shared cards, AMD partitions) needs a
scenario with nodes that names the trace.

## Other configurations

Those of the design document (`nodes:`) and of the fake GPU operator (`nodePools:`, also in the
ConfigMap that delivers them under `topology.yml`) are read as they are written. A pod whose
containers have GPUs of their own is one pod with these containers. Of the operator's,
`otherDevices`, `resources`, `numa`, `overrides` and `gpuOperator` change nothing: no GPU comes of
them, and `gpu-ledger fake check` warns of those that say something.
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
