"""AMD's exporter: partitions, power on the first one only, health."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from fake_gpu.exporters.amd import METRICS, AmdReading, attribution, identity, nodes_total
from fake_gpu.exporters.devices import Entity, EntityState, NodeUse
from fake_gpu.fleet.model import Incident
from tests.small_fleets import MIDNIGHT, node, pod, whole

MANDATORY = {
    "card_model",
    "container",
    "deployment_mode",
    "gpu_compute_partition_type",
    "gpu_id",
    "gpu_memory_partition_type",
    "gpu_partition_id",
    "hostname",
    "job_id",
    "job_partition",
    "job_user",
    "kfd_process_id",
    "namespace",
    "pod",
    "serial_number",
}


def _partitioned() -> NodeUse:
    """A node whose first card has four partitions."""
    one = node("amd-0", cards=1)
    card = replace(one.cards[0], vendor="amd", model_name="AMD Instinct MI300X OAM")
    parts = tuple(
        replace(
            whole(card),
            device_id=f"{card.card_id}/{number}",
            makeup="partition",
            profile="cpx_nps4",
            resource="amd.com/gpu",
            compute_share=Fraction(1, 4),
            memory_mib=card.memory_mib // 4,
            partition_id=number,
        )
        for number in range(4)
    )
    return NodeUse(replace(one, cards=(card,), devices=parts), ())


def _values(entity: Entity, pct: int, incident: Incident | None = None) -> dict[str, float]:
    step = EntityState(MIDNIGHT, MIDNIGHT + 1, pct, 100, ())
    reading = AmdReading(entity, step, 120_000, float(pct), incident)
    return {metric.head.name: float(metric.value(reading)) for metric in METRICS}


def test_every_partition_is_an_entity_with_the_mandatory_labels() -> None:
    use = _partitioned()
    assert len(use.entities) == nodes_total(use.node) == 4
    labels = [dict(identity(use.node, entity)) for entity in use.entities]
    assert [own["gpu_partition_id"] for own in labels] == ["0", "1", "2", "3"]
    assert {own["gpu_compute_partition_type"] for own in labels} == {"cpx"}
    assert {own["gpu_memory_partition_type"] for own in labels} == {"nps4"}
    nobody = dict(attribution(EntityState(0, 1, 0, 4, ())))
    assert set(labels[0]) | set(nobody) == MANDATORY


def test_power_and_activity_are_shown_by_the_first_partition_only() -> None:
    use = _partitioned()
    first, second = (_values(entity, 80) for entity in use.entities[:2])
    assert first["gpu_power_usage"] == 120
    assert first["gpu_gfx_activity"] == 80
    assert second["gpu_power_usage"] == second["gpu_gfx_activity"] == 0


def test_memory_adds_up_and_an_unhealthy_card_is_reported() -> None:
    use = _partitioned()
    values = _values(use.entities[1], 50)
    assert values["gpu_used_vram"] + values["gpu_free_vram"] == values["gpu_total_vram"] == 10240
    ill = Incident(use.node.cards[0].card_id, MIDNIGHT, None, "ecc")
    assert _values(use.entities[0], 0, ill)["gpu_health"] == 0
    assert values["gpu_health"] == 1


def test_the_pod_label_has_the_name_of_the_pod() -> None:
    one = node("amd-0")
    use = NodeUse(one, [pod("p", created=0, scheduled=0, started=1, on=one)])
    step = use.steps(use.entities[0], MIDNIGHT + 10, MIDNIGHT + 11)[0]
    named = dict(attribution(step))
    assert (named["namespace"], named["pod"], named["container"]) == ("team-a", "p", "main")
