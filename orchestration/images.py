"""The images of every component and of what they stand on, and mirror sets for OpenShift.

Put here: names and tags, and the two files that `init --mirror` writes.
Not here: building our own images (`deploy/COMPONENT/Containerfile`).
"""

from __future__ import annotations

from importlib.metadata import version

from ingestion.yaml_text import yaml_text

COMPONENTS = ("ledger", "portal", "collector", "idle-pruner", "amd-exporter", "fake-gpu")

OTHERS = (
    "docker.io/library/python:3.11-slim",  # the base of ours
    "docker.io/library/postgres:17-bookworm",  # for evaluation
    "quay.io/openshift/origin-oauth-proxy:4.20",  # login of the portal on OpenShift
    "quay.io/oauth2-proxy/oauth2-proxy:v7.12.0",  # login of the portal elsewhere
)
"""Images of other projects that the manifests name."""

SOURCES = (
    "docker.io/library",
    "quay.io/openshift",
    "quay.io/oauth2-proxy",
    # NVIDIA's GPU operator: operator, driver, toolkit, device plugin, MIG manager, DCGM, exporter.
    "nvcr.io/nvidia",
    "registry.k8s.io/nfd",  # Node Feature Discovery
    "docker.io/rocm",  # AMD's GPU operator and exporter
)
"""Repositories with the mirrored images. The GPU operators' own lists have the tags."""


def image_list(prefix: str) -> str:
    """Every image by its name in the mirror; of others also where it comes from."""
    own = [f"{prefix}/gpu-ledger/{name}:{version('gpu-ledger')}" for name in COMPONENTS]
    others = [f"{image} {prefix}/{image.partition('/')[2]}" for image in OTHERS]
    return "\n".join(
        [
            "# Ours: build and push them (make images REGISTRY=…).",
            *own,
            "# Others: copy the first name to the second (skopeo copy docker://… docker://…).",
            *others,
            "# The GPU operators: NVIDIA's release notes and AMD's chart list theirs; keep the",
            "# path after the registry's name. OpenShift: oc mirror with the operators' catalogue.",
            "",
        ]
    )


def mirror_sets(prefix: str) -> str:
    """For OpenShift: by tag and by digest, every source is looked for in the mirror first."""
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
