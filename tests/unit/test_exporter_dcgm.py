"""dcgm-exporter's lines: labels as in real scrapes, and consistent values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fake_gpu.exporters.dcgm import (
    FIELDS,
    RENAMED,
    DcgmReading,
    Style,
    attributions,
    by_name,
    fields_of,
    identity,
)
from fake_gpu.exporters.devices import Entity, EntityHolder, EntityState, NodeUse
from fake_gpu.exporters.exposition import read_lines
from fake_gpu.fleet.model import Card, Node, PodLifetime
from tests.shared_data import shared_text
from tests.small_fleets import HOUR, MIDNIGHT, node, pod

OLD = Style(pci_bus_id=False)  # the version of the captures has no such label


def _entity(card: Card, **more: object) -> Entity:
    plain = Entity(card, (), 1000, 1, 0, 1 << 40)  # type: ignore[arg-type]
    return replace(plain, **more)  # type: ignore[arg-type]


def _real_label_sets(name: str, field: str) -> list[tuple[tuple[str, str], ...]]:
    return [line.labels for metric, line in read_lines(shared_text(name)) if metric == field]


def _holder(one: Node, namespace: str, name: str, container: str) -> EntityHolder:
    life = pod(name, created=0, scheduled=0, started=1, on=one, namespace=namespace)
    return EntityHolder(life, replace(life.holds[0], container=container), one.devices[0])


def test_a_card_with_a_workload_has_the_labels_of_a_real_scrape() -> None:
    one = replace(node("nvidia-dcgm-exporter-s228n"), driver_version="525.60.13")
    first = replace(
        one.cards[0],
        card_id="GPU-7a2e92f2-be71-d37e-a744-541600ffc722",
        model_name="Tesla T4",
    )
    second = replace(
        one.cards[1],
        card_id="GPU-5f587dd4-6505-0873-c6db-8324dbfe5ba9",
        model_name="Tesla T4",
    )
    used = EntityState(
        0,
        1,
        0,
        128,
        (
            _holder(
                one,
                "runai-reservation",
                "runai-reservation-gpu-qa-mig-worker-gpu-1-kvltw",
                "runai-reservation",
            ),
        ),
    )
    ours = [
        (*identity(one, _entity(card), OLD), *labels)
        for card, step in ((first, used), (second, EntityState(0, 1, 0, 5, ())))
        for labels in attributions(_entity(card), step, OLD)
    ]
    assert ours == _real_label_sets("dcgm/t4_one_workload.prom", "DCGM_FI_DEV_GPU_UTIL")


def test_a_card_with_instances_has_the_labels_of_a_real_scrape() -> None:
    one = replace(node("nvidia-dcgm-exporter-q28k4"), driver_version="520.56.06")
    card = replace(one.cards[0], card_id="GPU-7099682b-a20d-2bcc-74ab-b9060454d81e")
    instances = [("1g.5gb", 7), ("1g.5gb", 9), ("2g.10gb", 5)]
    idle = EntityState(0, 1, 0, 98, ())
    ours = []
    for profile, number in instances:
        entity = _entity(card, profile=profile, gpu_instance_id=number)
        ours += [
            (*identity(one, entity, OLD), *labels) for labels in attributions(entity, idle, OLD)
        ]
    name = "dcgm/a100_mig_2x1g.5gb_2g.10gb.prom"
    assert ours == _real_label_sets(name, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")


@pytest.mark.parametrize(
    ("capture", "of_instances"),
    [("dcgm/t4_one_workload.prom", False), ("dcgm/a100_mig_2x1g.5gb_2g.10gb.prom", True)],
)
def test_fields_and_fields_of_instances_equal_those_of_real_exporters(
    capture: str, of_instances: bool
) -> None:
    real = {name for name, _ in read_lines(shared_text(capture))}
    assert real <= {f.head.name for f in FIELDS}
    if of_instances:
        missing = {f.head.name for f in FIELDS if not f.of_instances}
        # The exporter of the capture, of 2022, still had it; current ones do not.
        assert real & missing == {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER"}


def test_values_have_as_many_decimals_as_real_ones() -> None:
    text = shared_text("dcgm/t4_one_workload.prom")
    fields = {field.head.name: field for field in FIELDS}
    for row in text.splitlines():
        if not row.startswith("#"):
            name, written = row.partition("{")[0], row.rpartition(" ")[2]
            assert fields[name].text(float(written)) == written


def _reading(pct: int, used: int = 4) -> DcgmReading:
    one = node("node-a")
    entity = NodeUse(one, ()).entities[0]
    return DcgmReading(entity, EntityState(0, 1, pct, used, ()), 50_000 + 3_500 * pct, None)


def _values(reading: DcgmReading) -> dict[str, float]:
    return {field.head.name: float(field.value(reading)) for field in FIELDS}


@pytest.mark.parametrize("pct", [0, 1, 37, 80, 100])
def test_the_fields_are_consistent(pct: int) -> None:
    values = _values(_reading(pct, used=1234))
    memory = sum(values[f"DCGM_FI_DEV_FB_{part}"] for part in ("USED", "FREE", "RESERVED"))
    assert memory == 40960
    engine, active, occupied, tensor = (
        values[f"DCGM_FI_PROF_{name}"]
        for name in ("GR_ENGINE_ACTIVE", "SM_ACTIVE", "SM_OCCUPANCY", "PIPE_TENSOR_ACTIVE")
    )
    assert engine >= active >= occupied >= tensor >= 0
    assert engine == pct / 100
    assert values["DCGM_FI_DEV_GPU_UTIL"] == pct
    assert values["DCGM_FI_DEV_POWER_USAGE"] == 50 + 3.5 * pct


def test_the_default_fields_include_five_of_the_profiling_fields() -> None:
    default = [f.head.name for f in fields_of(Style(profiling=False)) if f.profiling]
    everything = [f.head.name for f in fields_of(Style(profiling=True)) if f.profiling]
    assert len(default) == 5
    assert len(everything) == 12


def test_a_shared_card_names_its_last_pod_or_with_virtual_gpus_each_pod() -> None:
    one = node("node-a")
    shared = replace(one.devices[0], replica_count=4)
    entity = replace(NodeUse(one, ()).entities[0], devices=(shared,))
    holders = []
    for number in range(2):
        life: PodLifetime = pod(f"share-{number}", created=0, scheduled=0, started=1, on=one)
        holders.append(EntityHolder(life, replace(life.holds[0], replica_start=number), shared))
    step = EntityState(0, 1, 50, 4, tuple(holders))
    plain = [dict(labels)["pod"] for labels in attributions(entity, step, Style())]
    assert plain == ["share-1"]
    each = [dict(labels) for labels in attributions(entity, step, Style(virtual_gpus=True))]
    assert [(labels["pod"], labels.get("vgpu")) for labels in each] == [
        ("", None),
        ("share-0", "0"),
        ("share-1", "1"),
    ]


def test_the_uid_and_the_name_of_the_host_label_are_settings() -> None:
    one = node("node-a")
    use = NodeUse(one, [pod("p", created=0, scheduled=0, started=1, on=one)])
    style = Style(hostname_label="hostname", pod_uid=True)
    labels = dict(identity(one, use.entities[0], style))
    assert labels["hostname"] == "node-a"
    assert "Hostname" not in labels
    step = use.steps(use.entities[0], MIDNIGHT + 60, MIDNIGHT + HOUR)[0]
    (pod_labels,) = attributions(use.entities[0], step, style)
    assert (
        dict(pod_labels)["pod_uid"]
        == use.steps(use.entities[0], MIDNIGHT + 60, MIDNIGHT + 61)[0].holders[0].pod.uid
    )


def test_an_instance_of_a_claim_has_no_pod() -> None:
    one = node("node-a")
    life = pod("claimed", created=0, scheduled=0, started=1, on=one)
    hold = replace(life.holds[0], claim_uid="claim")
    card = NodeUse(one, ()).entities[0]
    holder = EntityHolder(life, hold, one.devices[0])
    step = EntityState(0, 1, 50, 4, (holder,))
    (whole_card,) = attributions(card, step, Style())
    assert dict(whole_card)["dra_driver_name"] == "gpu.nvidia.com"
    (instance,) = attributions(replace(card, gpu_instance_id=7), step, Style())
    assert dict(instance)["pod"] == ""


def test_each_renamed_field_has_the_same_value_in_its_new_unit() -> None:
    """37 % busy, 20,480 MiB used: as ratios, bytes, Hz; fields without a new name are unchanged."""
    old, new = (by_name(fields_of(Style(), names)) for names in ("old", "new"))
    gone = {name.removeprefix("DCGM_FI_") for name in old if name not in new}
    assert gone == set(RENAMED)
    assert {name for name in old if name in new} == {
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
        *(f"DCGM_FI_PROF_{bus}_{way}_BYTES" for bus in ("PCIE", "NVLINK") for way in ("TX", "RX")),
    }
    reading = _reading(37, used=20480)
    values = {name: float(field.value(reading)) for name, field in new.items()}
    assert values["DCGM_FI_DEV_GPU_UTIL_RATIO"] == 0.37
    assert values["DCGM_FI_DEV_MEMORY_UTIL_RATIO"] == 0.22  # percentages are rounded down
    assert values["DCGM_FI_DEV_FB_USED_BYTES"] == 21_474_836_480
    assert values["DCGM_FI_DEV_FB_CAPACITY_BYTES"] == 42_949_672_960
    assert values["DCGM_FI_DEV_SM_CLOCK_HERTZ"] == 1_410_000_000
    assert values["DCGM_FI_DEV_BOARD_POWER_WATTS"] == 179.5
    assert values["DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"] == 0.37
    assert new["DCGM_FI_DEV_GPU_UTIL_RATIO"].text(0.37) == "0.370000"
    assert new["DCGM_FI_DEV_FB_USED_BYTES"].text(21_474_836_480) == "21474836480"
