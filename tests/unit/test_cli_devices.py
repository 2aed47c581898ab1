"""`gpu-ledger gpu` and `gpu-ledger mig`, as a user or a script calls them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from orchestration.cli.main import main
from tests.decisions_by_hand import table

A100 = "NVIDIA-A100-SXM4-40GB"
LABEL = ("--label", f"nvidia.com/gpu.product={A100}")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


@pytest.fixture
def mig_file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(
        """\
version: v1
mig-configs:
  trap:
    - {devices: all, mig-enabled: true, mig-devices: {"3g.20gb": 2, "1g.5gb": 1}}
  pair:
    - {devices: all, mig-enabled: true, mig-devices: {"3g.20gb": 2}}
  other-card:
    - {device-filter: "0x233010DE", devices: all, mig-enabled: true, mig-devices: {"7g.80gb": 1}}
  nowhere:
    - {device-filter: "0xFFFF10DE", devices: all, mig-enabled: true, mig-devices: {"7g.80gb": 1}}
  quiet:
    - {devices: all, mig-enabled: false}
    - {devices: all, mig-enabled: true, mig-devices: {}}
"""
    )
    return path


def test_layouts_as_json_name_the_three_counts(capsys: pytest.CaptureFixture[str]) -> None:
    profiles = "1g.5gb,2g.10gb,3g.20gb,4g.20gb,7g.40gb"
    assert run("mig", "layouts", A100, "--profiles", profiles, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["positioned"], found["maximal"], found["placeable"]) == (297, 19, 37)
    assert found["profiles"] == profiles.split(",")
    assert len(found["layouts"]) == 297
    assert sum(layout["maximal"] for layout in found["layouts"]) == 19
    assert {"profile": "7g.40gb", "start": 0, "size": 8} in [
        instance for layout in found["layouts"] for instance in layout["instances"]
    ]


def test_layouts_take_short_names_and_default_to_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("mig", "layouts", "H200-141GB", "--profiles", "1g,2g,3g,4g,7g", "-o", "json") == 0
    short = json.loads(capsys.readouterr().out)
    assert short["profiles"] == ["1g.18gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"]
    assert run("mig", "layouts", "h200-141gb", "-o", "json") == 0
    everything = json.loads(capsys.readouterr().out)
    counts = [everything[name] for name in ("positioned", "maximal", "placeable")]
    assert counts == [2318, 239, 127]


def test_layouts_as_a_table_and_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("mig", "layouts", A100, "--profiles", "1g,2g,3g,4g,7g") == 0
    table = capsys.readouterr().out
    assert "297 positioned, 19 maximal, 37 placeable" in " ".join(table.split())
    assert "4g.20gb@0:4 3g.20gb@4:4" in table
    assert run("mig", "layouts", "A30", "--profiles", "1g,2g,4g", "-o", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 25
    assert sum(row["maximal"] == "yes" for row in rows) == 5


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("mig", "layouts", "Tesla-T4"), "NAME-001"),
        (("mig", "layouts", "A100-40BG"), "NAME-001"),
        (("mig", "layouts", A100, "--profiles", "1g.10gb,5g.20gb"), "VALUE-001"),
    ],
)
def test_an_empty_query_is_wrong_use(
    arguments: tuple[str, ...], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert capsys.readouterr().err.startswith(code)


def test_mig_check_shows_the_fitting_cards_and_the_unsold_shares(
    mig_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("mig", "check", str(mig_file), "--product", A100, "-o", "json") == 1
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (found["valid"], found["mig_parted"]) == (True, "Selected MIG configuration is valid")
    rows = {(row["config"], row["entry"]): row for row in found["entries"]}
    trap, pair = rows["trap", 1], rows["pair", 1]
    assert (trap["slices_add_up"], trap["fits"]) == (True, False)
    assert "9 memory slots" in trap["why_not"]
    assert (pair["fits"], pair["slots"]) == (True, "3g.20gb@0:4 3g.20gb@4:4")
    assert (pair["sold_compute"], pair["unsold_compute"]) == ("6/7", "1/7")
    assert (pair["sold_memory"], pair["unsold_memory"]) == ("1/1", "0/1")
    assert rows["other-card", 1]["fits"] is None
    assert rows["quiet", 1]["note"] == "line 13 overrides it"
    assert rows["quiet", 2]["slots"] == "no instances"
    assert shown.err.startswith("MIG-002")


def test_without_a_product_the_filter_or_the_profiles_choose_the_cards(
    mig_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("mig", "check", str(mig_file), "-o", "csv") == 1
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    cards = {row["config"]: row["card"] for row in rows}
    assert cards["other-card"] == "h100-80gb"
    assert cards["nowhere"] == "no card"
    assert [row["card"] for row in rows if row["config"] == "pair"] == ["a100-40gb"]
    assert [row["card"] for row in rows if row["config"] == "quiet"] == ["any card", "any MIG card"]


def test_a_file_that_fits_exits_with_0(mig_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("mig", "check", str(mig_file), "--config", "pair") == 0
    assert "3g.20gb@4:4" in capsys.readouterr().out


def test_a_file_that_mig_parted_refuses_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "version: v1\nmig-configs: {a: [{devices: none, mig-enabled: true, mig-devices: {}}]}"
    )
    assert run("mig", "check", str(path)) == 2
    assert capsys.readouterr().err.startswith("MIG-001")
    path.write_text(
        "version: v1\nmig-configs: {a: [{devices: 0, mig-enabled: true, mig-devices: {}}]}"
    )
    assert run("mig", "check", str(path), "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["valid"], found["mig_parted"].partition(":")[0]) == (False, "refused")
    assert found["warnings"] == [
        "line 2: devices is the single number 0; mig-parted wants a list, [0]"
    ]
    path.write_bytes(b"#" * 2_000_000)
    assert run("mig", "check", str(path)) == 2
    assert run("mig", "check", str(tmp_path / "missing.yaml")) == 2


def test_classify_prints_class_share_and_weights(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("gpu", "classify", "nvidia.com/mig-3g.20gb", *LABEL, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gpu_class"] == "A100-40GB"
    assert found["mig_profile"] == "3g.20gb"
    assert (found["compute_share"], found["memory_share"]) == ("3/7", "1/2")
    weights = [found[f"weight_{policy}"] for policy in ("max", "compute", "memory", "table")]
    assert weights == ["1/2", "3/7", "1/2", "1/2"]
    assert run("gpu", "classify", "nvidia.com/mig-1g.10gb", *LABEL) == 0
    assert "A100-40GB" in capsys.readouterr().out


def test_classify_reports_an_unknown_product(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("gpu", "classify", "nvidia.com/gpu") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("GPU-001")
    assert "no_product" in shown.err
    assert run("gpu", "classify", "nvidia.com/gpu", "--label", "nonsense") == 2


def test_a_local_row_extends_the_known_products(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "products.csv"
    path.write_text(
        table("products", "NVIDIA-R100,nvidia,R100-288GB,,7,8,8-slot-288gb")["products.csv"]
    )
    label = ("--label", "nvidia.com/gpu.product=NVIDIA-R100")
    assert run("gpu", "classify", "nvidia.com/mig-1g.36gb", *label) == 1
    capsys.readouterr()
    options = ("--products", str(path), "-o", "json")
    assert run("gpu", "classify", "nvidia.com/mig-1g.36gb", *label, *options) == 0
    assert json.loads(capsys.readouterr().out)["gpu_class"] == "R100-288GB"
    # Without its reason, name and date it is not a decision: `decisions check` refuses it, too.
    path.write_text(
        "product,vendor,gpu_class,memory_mib,compute_slots,memory_slots,mig_geometry\n"
        "NVIDIA-R100,nvidia,R100-288GB,294912,7,8,8-slot-288gb\n"
    )
    assert run("gpu", "classify", "nvidia.com/gpu", *options) == 2
    assert "missing: reason, decided_by, decided_on" in capsys.readouterr().err
    path.write_bytes(b"\xff\xfe")
    assert run("gpu", "classify", "nvidia.com/gpu", *options) == 2
    assert capsys.readouterr().err.startswith("DEC-001")
    path.write_bytes(b"x" * 5_000_000)
    assert run("gpu", "classify", "nvidia.com/gpu", *options) == 2
