"""Utilisation, memory, power and energy of devices, compared with sums over every second."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from fake_gpu.exporters.devices import NodeUse, UnaccountedProcess, entities_of
from fake_gpu.fleet.model import Device, DeviceHold, Node, PodLifetime, Run, Utilisation
from fake_gpu.prometheus.node_intervals import NodeIntervals
from tests.small_fleets import HOUR, MIDNIGHT, node, pod, whole

PHASES = Utilisation(((600, 80), (300, 0)), repeat=2, after_pct=10)


def _busy(on: Node) -> PodLifetime:
    return pod("phased", created=0, scheduled=5, started=20, ended=3000, on=on, utilisation=PHASES)


def _pct_by_hand(second: int) -> int:
    """80 % for ten minutes, 0 % for five, twice, and then 10 %; the pod runs from 20 to 3000."""
    if not 20 <= second < 3000:
        return 0
    elapsed = second - 20
    if elapsed >= 1800:
        return 10
    return 80 if elapsed % 900 < 600 else 0


def test_steps_adjoin_and_equal_the_phases_in_every_second() -> None:
    one = node("node-a")
    use = NodeUse(one, [_busy(one)])
    first = use.entities[0]
    steps = use.steps(first, MIDNIGHT, MIDNIGHT + HOUR)
    assert steps[0].from_at == MIDNIGHT
    assert steps[-1].until_at == MIDNIGHT + HOUR
    for step, following in pairwise(steps):
        assert step.until_at == following.from_at
    for step in steps:
        for at in (step.from_at, step.until_at - 1):
            assert step.pct == _pct_by_hand(at - MIDNIGHT), at - MIDNIGHT


def test_a_pod_has_its_card_from_its_admission_until_its_end() -> None:
    one = node("node-a")
    use = NodeUse(one, [_busy(one)])
    held = [s for s in use.steps(use.entities[0], MIDNIGHT, MIDNIGHT + HOUR) if s.holders]
    assert (held[0].from_at, held[-1].until_at) == (MIDNIGHT + 6, MIDNIGHT + 3000)
    assert all(not s.holders for s in use.steps(use.entities[1], MIDNIGHT, MIDNIGHT + HOUR))


def test_energy_is_the_sum_of_the_power_of_every_second() -> None:
    one = node("node-a")
    use = NodeUse(one, [_busy(one)])
    card = one.cards[0]
    # 50 W idle, 350 W more at full load; the node is an hour older than midnight.
    watts = sum(50 + 3.5 * _pct_by_hand(second) for second in range(HOUR))
    expected = round((watts + 50 * HOUR) * 1_000_000)
    assert use.microjoules_at(card, MIDNIGHT + HOUR) == expected
    assert use.microjoules_at(card, MIDNIGHT - HOUR) == 0
    # A query for a time before, between or after changes nothing.
    other = NodeUse(one, [_busy(one)])
    for at in (MIDNIGHT + 1234, MIDNIGHT + 17, MIDNIGHT + 2999):
        other.microjoules_at(card, at)
    assert other.microjoules_at(card, MIDNIGHT + HOUR) == expected


@pytest.mark.parametrize("before", [(), (-2,), (-1,), (-2, -1), (1,), (-1, 1)])
def test_the_energy_of_a_day_does_not_depend_on_days_read_before(
    before: tuple[int, ...],
) -> None:
    one = node("node-a")
    intervals = NodeIntervals(NodeUse(one, [_busy(one)]))
    today = MIDNIGHT // 86_400
    for day in before:
        intervals.day(today + day)
    first = next(s for s in intervals.day(today) if s.entity.card is one.cards[0])
    # The node is an hour older than midnight, and idle until then.
    assert intervals.microjoules(first) == 50 * HOUR * 1_000_000
    busy = round(3.5 * sum(_pct_by_hand(second) for second in range(HOUR)))
    tomorrow = intervals.day(today + 1)[0]
    assert intervals.microjoules(tomorrow) == (50 * 25 * HOUR + busy) * 1_000_000


def test_memory_is_used_while_the_pod_runs_and_adds_up_to_the_card() -> None:
    one = node("node-a")
    use = NodeUse(one, [replace(_busy(one), memory_used_pct=50)])
    entity = use.entities[0]
    by_time = {
        s.from_at - MIDNIGHT: s.used_mib for s in use.steps(entity, MIDNIGHT, MIDNIGHT + HOUR)
    }
    assert entity.reserved_mib == 512  # 40960 / 80
    assert by_time[20] == (40960 - 512) // 2
    assert by_time[3000] == by_time[0] == 4


def _sliced(one: Node) -> Node:
    """The first card with a 1g and a 3g instance."""
    first = one.cards[0]
    small = replace(
        whole(first),
        device_id="MIG-1g",
        makeup="mig",
        resource="nvidia.com/mig-1g.5gb",
        profile="1g.5gb",
        compute_share=Fraction(1, 7),
        memory_share=Fraction(1, 8),
        memory_mib=4864,
        gpu_instance_id=9,
    )
    large = replace(
        small,
        device_id="MIG-3g",
        profile="3g.20gb",
        compute_share=Fraction(3, 7),
        memory_share=Fraction(4, 8),
        memory_mib=19968,
        gpu_instance_id=2,
    )
    return replace(one, devices=(small, large, one.devices[1]))


def _on(one: Node, device: Device, **times: int) -> PodLifetime:
    life = pod("sliced", on=one, cards=(), **times)
    hold = DeviceHold(
        device.device_id, MIDNIGHT + times["scheduled"], MIDNIGHT + times["ended"], "main"
    )
    return replace(life, holds=(hold,))


def test_a_card_with_instances_is_busy_by_their_shares() -> None:
    one = _sliced(node("node-a"))
    life = _on(one, one.devices[1], created=0, scheduled=0, started=10, ended=1010)
    use = NodeUse(one, [life])
    assert [e.profile for e in use.entities] == ["3g.20gb", "1g.5gb", ""]
    power = use.milliwatts(one.cards[0], MIDNIGHT, MIDNIGHT + HOUR)
    # 350 W above idle at full load; three of seven slots at 100 % are 150 W.
    assert [(a - MIDNIGHT, b - MIDNIGHT, w) for a, b, w in power] == [
        (0, 1, 50_000),
        (1, 10, 50_000),
        (10, 1010, 200_000),
        (1010, HOUR, 50_000),
    ]


def test_a_compute_instance_makes_its_gpu_instance_busy_by_its_part() -> None:
    one = _sliced(node("node-a"))
    large = one.devices[1]
    parts = [
        replace(large, device_id=f"MIG-{n}c", profile=f"{n}c.3g.20gb", compute_share=Fraction(n, 7))
        for n in (1, 2)
    ]
    one = replace(one, devices=tuple(parts))
    life = _on(one, parts[0], created=0, scheduled=0, started=10, ended=1010)
    use = NodeUse(one, [life])
    (entity,) = use.entities
    assert entity.profile == "3g.20gb"
    assert max(step.pct for step in use.steps(entity, MIDNIGHT, MIDNIGHT + HOUR)) == Fraction(
        100, 3
    )
    # 350 W above idle, by one of the card's seven compute slots.
    assert max(w for _, _, w in use.milliwatts(one.cards[0], MIDNIGHT, MIDNIGHT + HOUR)) == 100_000


def test_replicas_share_a_card_up_to_its_whole() -> None:
    one = node("node-a")
    shared = replace(
        one.devices[0], makeup="replica", compute_share=Fraction(1, 4), replica_count=4
    )
    one = replace(one, devices=(shared, one.devices[1]))
    lives = []
    for number in range(2):
        life = pod(f"share-{number}", created=0, scheduled=0, started=10, ended=1000, on=one)
        hold = replace(life.holds[0], replica_start=number, replica_count=1)
        lives.append(replace(life, holds=(hold,), utilisation=Utilisation(((60, 70),))))
    use = NodeUse(one, lives)
    busy = next(s for s in use.steps(use.entities[0], MIDNIGHT, MIDNIGHT + HOUR) if s.pct)
    assert busy.pct == 100  # 70 + 70, limited to 100
    assert busy.used_mib == 2 * ((40960 - 512) // 4)
    assert [holder.pod.name for holder in busy.holders] == ["share-0", "share-1"]


def test_a_restart_leaves_the_card_idle_and_held() -> None:
    one = node("node-a")
    life = pod("again", created=0, scheduled=0, started=10, ended=1000, on=one)
    runs = (
        Run(MIDNIGHT + 10, MIDNIGHT + 400, 1, "Error"),
        Run(MIDNIGHT + 420, MIDNIGHT + 1000, 0, "Completed"),
    )
    life = replace(life, containers=(replace(life.containers[0], runs=runs),))
    use = NodeUse(one, [life])
    steps = use.steps(use.entities[0], MIDNIGHT + 100, MIDNIGHT + 900)
    between = [(s.from_at - MIDNIGHT, s.until_at - MIDNIGHT, s.pct, len(s.holders)) for s in steps]
    assert between == [(100, 400, 100, 1), (400, 420, 0, 1), (420, 900, 100, 1)]


def test_a_hold_may_have_its_own_load() -> None:
    """Two cards of one pod: one with the load of the pod, one with its own load and memory."""
    one = node("node-a")
    life = pod("two", created=0, scheduled=0, started=10, ended=1000, on=one, cards=(0, 1))
    own = replace(life.holds[1], utilisation=Utilisation(((60, 10),)), memory_used_mib=5000)
    use = NodeUse(one, [replace(life, holds=(life.holds[0], own))])
    first, second = (
        next(step for step in use.steps(entity, MIDNIGHT + 100, MIDNIGHT + 900) if step.pct)
        for entity in use.entities
    )
    assert (first.pct, first.used_mib) == (100, 40960 - 512)
    assert (second.pct, second.used_mib) == (10, 5000)


def test_a_card_without_a_pod_can_be_busy() -> None:
    one = node("node-a")
    use = NodeUse(one, [], [UnaccountedProcess(0, MIDNIGHT + 60, MIDNIGHT + 120, 60)])
    steps = use.steps(use.entities[0], MIDNIGHT, MIDNIGHT + HOUR)
    assert [(s.pct, len(s.holders)) for s in steps] == [(0, 0), (60, 0), (0, 0)]


def test_passthrough_cards_have_no_series() -> None:
    one = node("node-a")
    away = tuple(replace(device, makeup="passthrough") for device in one.devices)
    assert entities_of(replace(one, devices=away)) == ()
