"""The layout of a real H200 node: two compute instances of different sizes in one GPU instance."""

from __future__ import annotations

from fractions import Fraction
from textwrap import indent

from fake_gpu.fleet.hardware import place, products
from tests.fleets import cluster_of

LAYOUT = {"1c.3g.71gb": 1, "2c.3g.71gb": 1, "2g.35gb": 1, "1g.18gb": 2}
PREFIX = "nvidia.com/mig-"


def node():  # type: ignore[no-untyped-def]
    body = """\
nodes:
  - name: n
    product: NVIDIA-H200
    cards: 1
    mig: {layout: {all: {1c.3g.71gb: 1, 2c.3g.71gb: 1, 2g.35gb: 1, 1g.18gb: 2}}}
    changes:
      - {at: +1h, layout: all-1g.18gb, takes: 5m}
"""
    return cluster_of(indent(body, " " * 4)).nodes[0]


def test_compute_instances_of_two_sizes_share_an_instance() -> None:
    placed = place(products()["NVIDIA-H200"], LAYOUT)
    assert placed is not None
    shown = [(p.profile.profile, p.start, p.compute_instances) for p in placed]
    assert ("3g.71gb", 4, ("2c.3g.71gb", "1c.3g.71gb")) in shown or (
        "3g.71gb",
        0,
        ("2c.3g.71gb", "1c.3g.71gb"),
    ) in shown
    assert sorted(p.profile.profile for p in placed) == ["1g.18gb", "1g.18gb", "2g.35gb", "3g.71gb"]


def test_the_labels_equal_those_of_the_capture() -> None:
    labels = node().states[0].labels
    assert labels[f"{PREFIX}1g.18gb.memory"] == "16384"
    assert labels[f"{PREFIX}2g.35gb.memory"] == "33280"
    assert labels[f"{PREFIX}1c.3g.71gb.memory"] == "71424"
    assert labels[f"{PREFIX}1c.3g.71gb.multiprocessors"] == "16"
    assert labels[f"{PREFIX}2c.3g.71gb.multiprocessors"] == "32"
    assert labels[f"{PREFIX}2c.3g.71gb.slices.ci"] == "2"
    assert labels[f"{PREFIX}1g.18gb.count"] == "2"


def test_shares_of_the_card_are_conserved() -> None:
    first = [device for device in node().devices if device.exists_until is not None]
    assert {d.profile for d in first} == set(LAYOUT)
    assert sum((d.compute_share for d in first), Fraction(0)) == 1
    assert sum((d.memory_share for d in first), Fraction(0)) == Fraction(8, 8)


def test_resources_of_the_previous_layout_stay_as_zero() -> None:
    last = node().states[-1].capacity
    assert last[f"{PREFIX}1g.18gb"] == 7
    assert [last[f"{PREFIX}{name}"] for name in ("1c.3g.71gb", "2c.3g.71gb", "2g.35gb")] == [0] * 3


def test_a_whole_a100_instance_has_the_engines_of_the_card() -> None:
    body = """\
nodes:
  - {name: n, product: NVIDIA-A100-SXM4-40GB, cards: 1, mig: {layout: all-7g.40gb}}
"""
    labels = cluster_of(indent(body, " " * 4)).nodes[0].states[0].labels
    engines = ("copy", "decoder", "encoder", "jpeg", "ofa")
    found = [labels[f"{PREFIX}7g.40gb.engines.{name}"] for name in engines]
    assert found == ["7", "5", "0", "1", "1"]
