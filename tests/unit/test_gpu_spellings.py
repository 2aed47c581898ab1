"""A mangled resource name is shown as pods request it, unless it is ambiguous."""

from __future__ import annotations

import pytest

from domain.gpu import RequestedNames, parse_catalogue
from warehouse.project import seed_text

CATALOGUE = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles"))


@pytest.mark.parametrize(
    ("seen", "requested"),
    [
        ("nvidia_com_gpu", "nvidia.com/gpu"),
        ("nvidia_com_gpu_shared", "nvidia.com/gpu.shared"),
        ("nvidia_com_mig_1g_5gb", "nvidia.com/mig-1g.5gb"),
        ("nvidia_com_mig_1c_3g_20gb", "nvidia.com/mig-1c.3g.20gb"),
        ("nvidia_com_mig_3g_20gb_shared", "nvidia.com/mig-3g.20gb.shared"),
        ("nvidia_com_mig_1g_5gb_me", "nvidia.com/mig-1g.5gb.me"),
        ("nvidia_com_GH100_H100_SXM5_80GB", "nvidia.com/GH100_H100_SXM5_80GB"),
        ("amd_com_gpu", "amd.com/gpu"),
        ("amd_com_cpx_nps4", "amd.com/cpx_nps4"),
        ("gpu_intel_com_i915", "gpu.intel.com/i915"),
        ("habana_ai_gaudi", "habana.ai/gaudi"),
    ],
)
def test_a_mangled_name_is_shown_as_pods_request_it(seen: str, requested: str) -> None:
    assert RequestedNames(CATALOGUE).of(seen) == requested
    assert RequestedNames(CATALOGUE).of(requested) == requested


@pytest.mark.parametrize(
    "seen",
    [
        "nvidia_com_mig_1g_24gb_me",  # with the media engines, and without them
        "example_com_gpu_x",
        "gpu.nvidia.com/gpu-0-mig-3g20gb-9-4",
        "cpu",
    ],
)
def test_an_ambiguous_or_unknown_name_is_unchanged(seen: str) -> None:
    assert RequestedNames(CATALOGUE).of(seen) == seen
