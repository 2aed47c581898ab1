"""`gpu-ledger gpu`: classify a resource name on a node with given labels.

Put here: the command, and reading the product facts that it and `mig` use.
Not here: classification itself (`domain.gpu`).
"""

from __future__ import annotations

from pathlib import Path

import click

from domain.decisions import load_decisions
from domain.decisions.reading import LARGEST_FILE_BYTES
from domain.gpu import (
    Catalogue,
    Classified,
    DeviceKind,
    Unclassified,
    WeightPolicy,
    weight,
)
from domain.gpu import classify as classify_resource
from domain.gpu.kinds import NotClassified
from orchestration.cli.output import emit, emit_document, output_option
from warehouse.device_tables import catalogue_of

products_option = click.option(
    "--products",
    "products_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A decisions/products.csv with products besides the shipped ones.",
)


def read_catalogue(products_path: Path | None) -> Catalogue:
    """The shipped product facts, extended by the rows of a decision table."""
    if products_path is None:
        return catalogue_of(load_decisions({}))
    with products_path.open("rb") as file:
        body = file.read(LARGEST_FILE_BYTES + 1)
    return catalogue_of(load_decisions({"products.csv": body}))


@click.group(name="gpu", no_args_is_help=True)
def command() -> None:
    """Classify a resource name: GPU class, MIG profile, share, weight."""


CLASSIFY_EPILOG = """\b
Examples:
  gpu-ledger gpu classify nvidia.com/mig-1g.5gb --label nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB
  gpu-ledger gpu classify nvidia_com_gpu --label label_nvidia_com_gpu_product=Tesla-T4
  gpu-ledger gpu classify nvidia.com/GH100_H100_SXM5_80GB -o json
"""


@command.command(epilog=CLASSIFY_EPILOG)
@click.argument("resource")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="Label of the node, as on the Node object or as in kube_node_labels (repeatable).",
)
@products_option
@output_option
def classify(
    resource: str, labels: tuple[str, ...], products_path: Path | None, output: str
) -> None:
    """Print the class, profile, share and weights of one device of RESOURCE.

    RESOURCE is written as in a pod (nvidia.com/gpu), as in a metric (nvidia_com_gpu), or, for a
    claimed device, as driver/device (gpu.nvidia.com/gpu-0). The exit code is 1 if the resource is
    unknown.
    """
    catalogue = read_catalogue(products_path)
    found = classify_resource(resource, _labels(labels), catalogue)
    if isinstance(found, Unclassified):
        raise NotClassified(resource, f"{found.reason.value}: {found.explanation}")
    facts = _facts(found, catalogue)
    if output == "json":
        emit_document(facts)
    else:
        emit(
            [{"fact": fact, "value": value} for fact, value in facts.items()],
            output,
            title=resource,
        )


def _labels(texts: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--label")
        labels[key] = value
    return labels


def _facts(found: Classified, catalogue: Catalogue) -> dict[str, object]:
    assert isinstance(found, DeviceKind), "the unclassified were refused before"
    return {
        "vendor": found.vendor.value,
        "kind": found.kind.value,
        "product": found.product,
        "gpu_class": found.gpu_class,
        "mig_profile": found.mig_profile,
        "compute_share": found.compute_share,
        "memory_share": found.memory_share,
        "replicas": found.replicas,
        "is_claimed": found.is_claimed,
        **{f"weight_{p.value}": weight(found, p, catalogue) for p in WeightPolicy},
        "evidence": found.evidence,
    }
