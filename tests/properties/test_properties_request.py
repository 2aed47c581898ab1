"""The effective request against a simulated pod, container by container."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from domain.request import InitContainer, NotACount, effective_request, parse_count

resources = st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu"])
requests = st.dictionaries(resources, st.integers(0, 5), max_size=3)
init_containers = st.lists(st.builds(InitContainer, requests, st.booleans()), max_size=5)


def most_held(containers: list[dict[str, int]], inits: list[InitContainer]) -> dict[str, int]:
    """The most devices that the running containers of the pod hold at one time."""
    moments: list[list[dict[str, int]]] = []
    sidecars: list[dict[str, int]] = []
    for init in inits:
        moments.append([*sidecars, dict(init.requests)])
        if init.is_sidecar:
            sidecars.append(dict(init.requests))
    moments.append([*sidecars, *containers])
    held: dict[str, int] = {}
    for running in moments:
        for resource in {r for requests in running for r in requests}:
            now = sum(requests.get(resource, 0) for requests in running)
            held[resource] = max(held.get(resource, 0), now)
    return {resource: count for resource, count in held.items() if count}


@given(st.lists(requests, max_size=4), init_containers)
def test_the_effective_request_is_the_maximum_held_at_any_moment(
    containers: list[dict[str, int]], inits: list[InitContainer]
) -> None:
    assert effective_request(containers, inits) == most_held(containers, inits)


@given(st.one_of(st.text(max_size=20), st.integers(), st.none(), st.floats(), st.booleans()))
def test_the_quantity_parser_survives_any_text(quantity: object) -> None:
    try:
        count = parse_count(quantity)
    except NotACount:
        return
    assert 0 <= count < 2**63


@given(st.integers(0, 2**63 - 1))
def test_a_count_is_itself(count: int) -> None:
    assert parse_count(str(count)) == parse_count(count) == count
