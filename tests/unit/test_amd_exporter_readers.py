"""Readers of AMD's tools: captured output of rocm-smi, both formats of amd-smi, invalid output.

Expected values were read from the captures by hand.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_exporter import amd_smi, rocm_smi
from amd_exporter.devices import (
    LIMITS,
    LogicalDevice,
    complete_devices,
    number,
    pci_address,
    unique_id,
)
from tests.fake_rocm import amd_smi_gpu, partitioned_card
from tests.shared_data import shared_text

MIB = 1024 * 1024
PERCENT_TOLERANCE = 1e-9


def captured(name: str) -> tuple[LogicalDevice, ...]:
    devices, dropped = complete_devices(rocm_smi.read(json.loads(shared_text(f"amd/{name}.json"))))
    assert not dropped
    return devices


# (cards, first card: Unique ID, PCI address, product, W, used and total bytes, edge °C, sclk MHz)
CAPTURES: dict[str, tuple[Any, ...]] = {
    "mi100_rocm571": (
        *(6, "", "0000:1e:00.0", "Arcturus GL-XL [Instinct MI100]"),
        *(39, 6782976, 34342961152, 31, 300),
    ),
    "mi100_rocm602": (
        *(4, "0x79ccd55167a2124a", "0000:83:00.0", "Arcturus GL-XL [Instinct MI100]"),
        *(36, 6750208, 34342961152, 53, 300),
    ),
    # The product field of this card holds the vendor's ID, so it has no product.
    "rx6700xt_rocm430": (1, "", "0000:07:00.0", "", 6, 1622728704, 12868124672, 45, 500),
    "rx6700xt_rocm571": (
        *(1, "", "0000:07:00.0", "Navi 22 [Radeon RX 6700/6700 XT / 6800M]"),
        *(6, 1564491776, 12868124672, 45, 500),
    ),
    # Its power is "N/A (Secondary die)".
    "rx6700xt_rocm602": (
        *(1, "", "0000:07:00.0", "Navi 22 [Radeon RX 6700/6700 XT / 6800M]"),
        *(None, 1572757504, 12868124672, 45, 500),
    ),
    "vega-10-XT": (
        *(1, "0x02150e7d042a1124", "0000:04:00.0", ""),
        *(15, 17776640, 17163091968, 39, 1269),
    ),
}


@pytest.mark.parametrize("name", CAPTURES)
def test_real_output_of_rocm_smi_gives_the_readings(name: str) -> None:
    cards, serial, address, product, watts, used, total, edge, megahertz = CAPTURES[name]
    devices = captured(name)
    assert len(devices) == cards
    first = devices[0]
    assert (first.unique_id, first.pci_bus, first.product) == (serial, address, product)
    assert first.uuid == (serial or address)
    assert first.readings.get("power_watts") == watts
    assert first.readings["memory_used_bytes"] == used
    assert first.readings["memory_total_bytes"] == total
    assert first.readings["memory_used_percent"] == pytest.approx(100 * used / total)
    assert first.readings["utilization_percent"] == 0
    assert first.readings["temperature_celsius/edge"] == edge
    assert first.readings["clock_hertz/graphics"] == megahertz * 10**6
    assert "energy_joules_total" not in first.readings
    assert "healthy" not in first.readings


def test_cards_of_a_real_node_differ_by_address_where_serials_do_not() -> None:
    for name in ("mi100_rocm571", "mi100_rocm602"):
        devices = captured(name)
        assert len({device.uuid for device in devices}) == len(devices)
        assert {device.partition for device in devices} == {0}


def test_memory_use_of_old_rocm_is_activity_and_not_allocation() -> None:
    """The RX 6700 XT had 12.6 % of its memory in use while "GPU memory use (%)" was 0."""
    [device] = captured("rx6700xt_rocm430")
    assert device.readings["memory_activity_percent"] == 0
    assert device.readings["memory_used_percent"] == pytest.approx(12.61, abs=0.01)


def from_amd_smi(*gpus: dict[str, Any], wrapped: bool = True) -> tuple[LogicalDevice, ...]:
    documents = [[{"gpu": gpu["gpu"], **gpu[name]} for gpu in gpus] for name in NAMES]
    shaped = [{"gpu_data": rows} if wrapped else rows for rows in documents]
    return complete_devices(amd_smi.read(*shaped))[0]


NAMES = ("metric", "list", "static")


def test_both_shapes_of_amd_smi_give_one_device() -> None:
    gpu = amd_smi_gpu(0, bdf="0000:C1:00.0")
    old, new = (from_amd_smi(gpu, wrapped=wrapped) for wrapped in (False, True))
    assert old == new
    [device] = new
    assert (device.gpu, device.unique_id, device.pci_bus) == (
        "0",
        "0x0123456789abcdef",
        "0000:c1:00.0",
    )
    assert (device.product, device.partition, device.partition_mode) == (
        "AMD Instinct MI300X",
        0,
        "spx_nps1",
    )
    assert device.readings == {
        "utilization_percent": 40,
        "memory_activity_percent": 12,
        "power_watts": 300,
        "memory_total_bytes": 196608 * MIB,
        "memory_used_bytes": 49152 * MIB,
        "memory_used_percent": 25,
        "temperature_celsius/junction": 61,
        "temperature_celsius/memory": 52,
        "clock_hertz/graphics": 2.1e9,
        "clock_hertz/memory": 1.3e9,
        "energy_joules_total": 1234.5,
        "ecc_errors_total/correctable": 3,
        "ecc_errors_total/uncorrectable": 0,
        "ecc_errors_total/deferred": 0,
        "healthy": 1,
    }


def test_blocks_and_leaves_without_a_value_are_absent() -> None:
    gpu = amd_smi_gpu(0, bdf="N/A", serial="N/A", watts=None, uncorrectable=None)
    gpu["metric"]["usage"] = "N/A"
    gpu["metric"]["mem_usage"] = "N/A"
    gpu["static"] = {}
    gpu["list"] = {}
    [device] = from_amd_smi(gpu)
    missing = {"utilization_percent", "power_watts", "memory_used_percent", "healthy"}
    assert missing.isdisjoint(device.readings)
    assert (device.uuid, device.product, device.partition_mode) == ("", "", "")


def test_an_uncorrectable_error_makes_a_card_unhealthy() -> None:
    [device] = from_amd_smi(amd_smi_gpu(0, bdf="0000:c1:00.0", uncorrectable=2))
    assert device.readings["healthy"] == 0


def test_partitions_have_the_activity_that_is_their_own() -> None:
    """ROCm 7 reports it on the first logical device: the mean of the engines of a partition."""
    engines: dict[str, list[int | None]] = {"xcp_0": [80, 60, None], "xcp_1": [0, 10, None]}
    first, second = from_amd_smi(*partitioned_card("05", 0, 2, activity=37, engines=engines))
    assert first.readings["utilization_percent"] == 70
    assert second.readings["utilization_percent"] == 5
    assert first.card == second.card
    assert [device.partition for device in (first, second)] == [0, 1]
    assert second.readings["memory_used_percent"] == pytest.approx(100 * 2048 / 98304)
    assert "power_watts" not in second.readings


def test_without_partition_values_only_the_first_has_activity() -> None:
    card = partitioned_card("05", 0, 8, activity=37)
    for gpu in card[1:]:
        # Older tools write zeros for values that were not measured.
        gpu["metric"]["usage"]["gfx_activity"] = {"value": 0, "unit": "%"}
        gpu["metric"]["power"]["socket_power"] = {"value": 0, "unit": "W"}
    first, *others = from_amd_smi(*card)
    assert first.readings["utilization_percent"] == 37
    for device in others:
        assert {"utilization_percent", "power_watts", "energy_joules_total"}.isdisjoint(
            device.readings
        )
        assert "memory_used_percent" in device.readings


def test_a_virtual_function_of_a_whole_card_keeps_its_activity() -> None:
    [device] = from_amd_smi(amd_smi_gpu(0, bdf="0000:c1:00.2", partition="N/A"))
    assert (device.partition, device.readings["utilization_percent"]) == (0, 40)


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("utilization_percent", 101.0),
        ("utilization_percent", -1.0),
        ("power_watts", 65535.0),
        ("memory_used_bytes", 2.0**64),
        ("temperature_celsius/edge", 65535.0),
        ("clock_hertz/graphics", 4294967295e6),
        ("ecc_errors_total/correctable", -1.0),
        ("power_watts", float("nan")),
        ("power_watts", float("inf")),
    ],
)
def test_an_impossible_value_is_dropped_and_counted(quantity: str, value: float) -> None:
    device = LogicalDevice("0", "", "0000:01:00.0", "", readings={quantity: value, "healthy": 1})
    [shown], dropped = complete_devices([device])
    assert quantity not in shown.readings
    assert shown.readings["healthy"] == 1
    assert dropped == {quantity.partition("/")[0]: 1}


def test_memory_use_above_the_memory_size_is_dropped() -> None:
    readings = {"memory_used_bytes": 3.0, "memory_total_bytes": 2.0}
    [shown], dropped = complete_devices([LogicalDevice("0", "", "", "", readings=readings)])
    assert shown.readings == {"memory_total_bytes": 2.0}
    assert dropped == {"memory_used_bytes": 1}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *((12, 12), ("12.5", 12.5), (" 12 ", 12), ("(300Mhz)", 300), ("-5", -5)),
        *(({"value": 7, "unit": "W"}, 7), ({"value": "N/A", "unit": "W"}, None)),
        *(("N/A", None), ("N/A (Secondary die)", None), ("", None), (None, None), (True, None)),
        *(("8.0GT/s x16 *", None), ("0x1002", None), ([], None), ("1e309", None), ("nan", None)),
    ],
)
def test_numbers_are_parsed_in_each_format_of_the_tools(
    written: object, read: float | None
) -> None:
    assert number(written) == read


def test_identities_have_one_spelling() -> None:
    assert unique_id("0x79CCD55167A2124A") == unique_id("79ccd55167a2124a") == "0x79ccd55167a2124a"
    assert unique_id("0x2150e7d042a1124") == "0x02150e7d042a1124"
    assert [unique_id(word) for word in ("N/A", "0x0", "0", "", None, "GPU-1")] == [""] * 6
    assert pci_address("0000:1E:00.0") == pci_address("1e:00.0") == "0000:1e:00.0"
    assert pci_address("N/A") == ""


KEYS = st.sampled_from(
    [
        *("card0", "GPU use (%)", "PCI Bus", "Unique ID"),
        *("gpu_data", "gpu", "usage", "gfx_activity", "gfx_busy_inst", "xcp_0", "value", "unit"),
        *("power", "socket_power", "bdf", "mem_usage", "ecc", "total_uncorrectable_count"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("N/A"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | KEYS, inner),
)


@given(JSON, JSON, JSON)
def test_no_output_of_a_tool_crashes_the_reader(one: Any, two: Any, three: Any) -> None:
    for read in (rocm_smi.read(one), amd_smi.read(one, two, three), rocm_smi.read({"card0": one})):
        devices, _ = complete_devices(read)
        for device in devices:
            for name, value in device.readings.items():
                low, high = LIMITS[name.partition("/")[0]]
                assert low <= value <= high
