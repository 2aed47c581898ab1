"""The effective request of a pod for each device, as the scheduler computes it.

Put here: one number per resource from containers, init containers and sidecars; quantities.
Not here: the kind of a resource (`domain.gpu`), or when the pod holds it.

Init containers run one after another before the containers, which then use the same devices: the
larger number counts. A sidecar (an init container that always restarts) keeps its devices from its
start to the end of the pod, so its number is added to both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from domain.errors import InvalidValue

LARGEST_QUANTITY = 2**63 - 1
"""The largest quantity that Kubernetes stores without losing digits."""

_QUANTITY = re.compile(
    r"([+-]?)([0-9]{1,40})(?:\.([0-9]{0,40}))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?",
    re.ASCII,
)
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}

Requests = Mapping[str, int]


class NotACount(InvalidValue):
    """A quantity that is not a whole number of devices."""

    def __init__(self, where: str, quantity: object) -> None:
        text = repr(quantity)
        super().__init__(
            where=where,
            seen=f"{text if len(text) <= 80 else text[:79] + '…'} is not a whole number of devices",
            why="a pod can request neither a part of a device nor a negative number",
            remedy="compare it with the pod in the API server",
        )


@dataclass(frozen=True, slots=True)
class InitContainer:
    """An init container's requests, and whether it is a sidecar (it always restarts)."""

    requests: Requests = field(default_factory=dict)
    is_sidecar: bool = False


def effective_request(
    containers: Iterable[Requests],
    init_containers: Iterable[InitContainer] = (),
    overhead: Requests | None = None,
) -> dict[str, int]:
    """The number of devices that a pod holds, by resource; a resource with 0 is left out."""
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}  # while the init containers run
    for container in init_containers:
        if container.is_sidecar:
            sidecars = _sum(sidecars, container.requests)
        else:
            most = _larger(most, _sum(sidecars, container.requests))
    running = sidecars
    for requests in containers:
        running = _sum(running, requests)
    total = _sum(_larger(most, running), overhead or {})
    for resource, count in total.items():
        if count > LARGEST_QUANTITY:
            raise NotACount(f"the request of {resource}", count)
    return {resource: count for resource, count in sorted(total.items()) if count}


def effective_request_of_pod(
    pod_spec: Mapping[str, object], is_counted: Callable[[str], bool]
) -> dict[str, int]:
    """The effective request by a pod's `spec`, for the resources that `is_counted` selects."""
    containers = [_requests(c, is_counted) for c in _objects(pod_spec, "containers")]
    init_containers = [
        InitContainer(_requests(c, is_counted), c.get("restartPolicy") == "Always")
        for c in _objects(pod_spec, "initContainers")
    ]
    overhead = _counts(pod_spec.get("overhead"), is_counted)
    return effective_request(containers, init_containers, overhead)


def parse_count(quantity: object, where: str = "a quantity") -> int:
    """Read a Kubernetes quantity that counts devices: `4`, `"4"`, `"1k"`, `"4000m"`."""
    number = parse_quantity(quantity)
    if number is None or number.denominator != 1 or not 0 <= number <= LARGEST_QUANTITY:
        raise NotACount(where, quantity)
    return int(number)


def parse_quantity(quantity: object) -> Fraction | None:
    """Read any Kubernetes quantity exactly; None for other text."""
    if isinstance(quantity, int) and not isinstance(quantity, bool):
        return Fraction(quantity)
    if isinstance(quantity, str) and (match := _QUANTITY.fullmatch(quantity)):
        return _number(match)
    return None


def _number(match: re.Match[str]) -> Fraction:
    sign, whole, decimals, suffix, exponent = match.groups()
    number = Fraction(f"{whole}.{decimals or '0'}")
    if suffix:
        number *= _SUFFIXES[suffix]
    if exponent:
        number *= Fraction(10) ** int(exponent)
    return -number if sign == "-" else number


def _objects(parent: Mapping[str, object], key: str) -> Sequence[Mapping[str, object]]:
    found = parent.get(key)
    return [o for o in found if isinstance(o, Mapping)] if isinstance(found, list) else []


def _requests(container: Mapping[str, object], is_counted: Callable[[str], bool]) -> dict[str, int]:
    """A container's requests; a limit without a request is also the request."""
    resources = container.get("resources")
    if not isinstance(resources, Mapping):
        return {}
    limits = _counts(resources.get("limits"), is_counted)
    return {**limits, **_counts(resources.get("requests"), is_counted)}


def _counts(quantities: object, is_counted: Callable[[str], bool]) -> dict[str, int]:
    if not isinstance(quantities, Mapping):
        return {}
    return {
        resource: parse_count(quantity, f"the request of {resource}")
        for resource, quantity in quantities.items()
        if isinstance(resource, str) and is_counted(resource)
    }


def _sum(left: Requests, right: Requests) -> dict[str, int]:
    return {r: left.get(r, 0) + right.get(r, 0) for r in {**left, **right}}


def _larger(left: Requests, right: Requests) -> dict[str, int]:
    return {r: max(left.get(r, 0), right.get(r, 0)) for r in {**left, **right}}
