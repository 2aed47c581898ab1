"""The images of all components and of the projects that they use; mirror sets for OpenShift.

Put here: names and tags, and the two files that `init --mirror` writes.
Not here: building our own images (`deploy/Containerfile`).
"""

from __future__ import annotations

from importlib.metadata import version

from ingestion.yaml_text import yaml_text

COMPONENTS = ("ledger", "portal", "collector", "idle-pruner", "amd-exporter", "fake-gpu")

OTHERS = (
    "docker.io/library/python:3.11-slim",  # the base image of our images
    "docker.io/library/postgres:17-bookworm",  # for evaluation
    "quay.io/openshift/origin-oauth-proxy:4.20",  # login of the portal on OpenShift
    "quay.io/oauth2-proxy/oauth2-proxy:v7.12.0",  # login of the portal elsewhere
)
"""Images of other projects that the manifests name."""

GPU_OPERATORS = (
    # NVIDIA's
    "nvcr.io/nvidia/gpu-operator",
    "nvcr.io/nvidia/driver",
    "nvcr.io/nvidia/k8s/container-toolkit",
    "nvcr.io/nvidia/k8s-device-plugin",
    "nvcr.io/nvidia/k8s/dcgm-exporter",
    "nvcr.io/nvidia/cloud-native/dcgm",
    "nvcr.io/nvidia/cloud-native/gpu-operator-validator",
    "nvcr.io/nvidia/cloud-native/k8s-driver-manager",
    "nvcr.io/nvidia/cloud-native/k8s-mig-manager",
    "registry.k8s.io/nfd/node-feature-discovery",
    # AMD's
    "docker.io/rocm/gpu-operator",
    "docker.io/rocm/gpu-operator-utils",
    "docker.io/rocm/k8s-device-plugin",
    "docker.io/rocm/k8s-node-labeller",
    "docker.io/rocm/device-metrics-exporter",
    "docker.io/rocm/device-config-manager",
)
"""Images of the GPU operators; the tags are in the release notes of the operator's version."""

SOURCES = (
    "docker.io/library",
    "quay.io/openshift",
    "quay.io/oauth2-proxy",
    "nvcr.io/nvidia",
    "registry.k8s.io/nfd",
    "docker.io/rocm",
)
"""Repositories with the mirrored images."""


def image_list(prefix: str) -> str:
    """Each image by its name in the mirror, and the source of each image of another project."""
    own = [f"{prefix}/gpu-ledger/{name}:{version('gpu-ledger')}" for name in COMPONENTS]
    others = [f"{image} {prefix}/{image.partition('/')[2]}" for image in OTHERS]
    return "\n".join(
        [
            "# Our images: build and push them (make images REGISTRY=…).",
            *own,
            "# Other images: copy the first name to the second (skopeo copy docker://… docker://…).",
            *others,
            "# The GPU operators, for those who use one: add the tags of its version, which its",
            "# release notes list. On OpenShift, oc mirror copies an operator of a catalogue.",
            *(f"# {image} {prefix}/{image.partition('/')[2]}" for image in GPU_OPERATORS),
            "",
        ]
    )


def mirror_sets(prefix: str) -> str:
    """The objects with which OpenShift pulls images from the mirror first, by tag and by digest."""
    kinds = (
        ("ImageTagMirrorSet", "imageTagMirrors"),
        ("ImageDigestMirrorSet", "imageDigestMirrors"),
    )
    entries = [
        {"source": source, "mirrors": [f"{prefix}/{source.partition('/')[2]}"]}
        for source in SOURCES
    ]
    return "---\n".join(
        yaml_text(
            {
                "apiVersion": "config.openshift.io/v1",
                "kind": kind,
                "metadata": {"name": "gpu-ledger"},
                "spec": {field: entries},
            }
        )
        for kind, field in kinds
    )
