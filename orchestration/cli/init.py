"""`gpu-ledger init`: a home with commented files, and manifests for the clusters.

Put here: the files of a new home.
Not here: their texts (`ingestion.settings`, `domain.decisions`, `ingestion.acm`,
`ingestion.kubernetes.collector_manifests`).
"""

from __future__ import annotations

import re
from pathlib import Path

import click
from click.core import ParameterSource

from domain.decisions import load_decisions, template_files
from ingestion.acm import admission_policy, allowlist, reader
from ingestion.kubernetes.collector_manifests import (
    CollectorPlace,
    collector_manifests,
    image_to_replace,
)
from ingestion.settings import load_settings, template_config
from orchestration.cli.output import emit, output_option
from orchestration.images import image_list, mirror_sets
from orchestration.open_home import decision_files
from warehouse.home import Home
from warehouse.store import write_whole

EPILOG = """\b
Examples:
  gpu-ledger init my-ledger
  gpu-ledger init .                        in an empty folder
  gpu-ledger init my-ledger --collector CLUSTER_ID --journal s3://spool/prod-us
  gpu-ledger init my-ledger --mirror registry.example.com/mirror
  gpu-ledger init my-ledger --from-acm --managed-cluster prod-us --managed-cluster prod-eu
"""

REPOSITORY = re.compile(r"[a-z0-9.-]+(:\d{1,5})?(/[a-z0-9._-]+)*", re.ASCII)
DEPLOY = "deploy"
"""The folder of the home with manifests; it can be written again at any time."""


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--collector",
    "collectors",
    multiple=True,
    metavar="CLUSTER_ID",
    help="Write the manifests of this cluster's collector (repeatable).",
)
@click.option("--journal", default="", help="Bucket of the journal (default: a volume claim).")
@click.option(
    "--journal-endpoint",
    default="",
    envvar="AWS_ENDPOINT_URL",
    show_envvar=True,
    help="Endpoint of a bucket outside AWS; the network policy allows its port.",
)
@click.option(
    "--namespace", default="gpu-ledger", show_default=True, help="Namespace of the collector."
)
@click.option("--image", default="", help="Image of the collector, with its registry.")
@click.option(
    "--api-port", default=6443, show_default=True, help="Port of the cluster's API server."
)
@click.option(
    "--openshift",
    is_flag=True,
    help="Write manifests for OpenShift, which sets the volume's group.",
)
@click.option("--from-acm", is_flag=True, help="Write the manifests for a hub with ACM.")
@click.option(
    "--managed-cluster",
    "managed_clusters",
    multiple=True,
    metavar="NAME",
    help="Cluster whose metrics the reader may query (default: those of decisions/clusters.csv).",
)
@click.option(
    "--mirror",
    default="",
    metavar="PREFIX",
    help="Write the list of images, and OpenShift's mirror sets, for a registry at PREFIX.",
)
@output_option
def init(
    folder: Path,
    collectors: tuple[str, ...],
    journal: str,
    journal_endpoint: str,
    namespace: str,
    image: str,
    api_port: int,
    openshift: bool,
    from_acm: bool,
    managed_clusters: tuple[str, ...],
    mirror: str,
    output: str,
) -> None:
    """Write a commented config.toml and the decision tables into FOLDER.

    With --collector, --from-acm or --mirror it also writes files into FOLDER/deploy; read them,
    then apply the manifests with kubectl. Existing files stay unchanged.
    """
    _refuse_ignored_options(collectors, from_acm)
    for option, url in (("--journal", journal), ("--journal-endpoint", journal_endpoint)):
        if "@" in url:
            raise click.UsageError(
                f"{option} contains a password: store it in the secret gpu-ledger-journal"
            )
    is_new = not (folder / "config.toml").is_file()
    home = Home.create(folder, template_config())
    written = {home.config_path: is_new}
    for name, text in template_files().items():
        written[home.decisions / name] = _write(home.decisions / name, text)
    if is_new and output == "table":
        click.echo(f"Created the home {home.path}. Next:")
        click.echo(f"  1. add the addresses of Thanos and of your clusters:  {home.config_path}")
        click.echo(
            f"  2. add a row for each measured cluster:               {home.decisions}/clusters.csv"
        )
        click.echo(f"  3. check both: gpu-ledger decisions check --home {folder}")
    places = [
        CollectorPlace(
            *(cluster_id, namespace, image, api_port, journal),
            endpoint=journal_endpoint,
            is_openshift=openshift,
            pod_labels=load_settings(home.config_path).pod_labels,
        )
        for cluster_id in collectors
    ]
    manifests = {
        **{f"collector-{one.cluster_id}.yaml": collector_manifests(one) for one in places},
        **(_acm(home, managed_clusters) if from_acm else {}),
        **(_mirror(mirror) if mirror else {}),
    }
    for name, text in manifests.items():
        path = home.path / DEPLOY / name
        written[path] = _write(path, text)
        if output == "table":
            click.echo(f"{path}: {'written' if written[path] else 'exists, unchanged'}")
    if output != "table":
        emit([{"file": str(path), "is_new": new} for path, new in written.items()], output)
    if places and not image:
        click.echo(f"No --image: replace {image_to_replace()} by the name of your image.", err=True)


def _mirror(prefix: str) -> dict[str, str]:
    prefix = prefix.rstrip("/")
    if not REPOSITORY.fullmatch(prefix):
        raise click.UsageError(f"--mirror: {prefix!r} is not HOST[:PORT]/PATH without a scheme")
    return {"mirror/images.txt": image_list(prefix), "mirror/mirror-sets.yaml": mirror_sets(prefix)}


COLLECTOR_OPTIONS = ("journal", "journal_endpoint", "namespace", "image", "api_port", "openshift")


def _refuse_ignored_options(collectors: tuple[str, ...], from_acm: bool) -> None:
    """Refuse options that have no effect; their environment variables may be set."""
    context = click.get_current_context()
    required = dict.fromkeys(() if collectors else COLLECTOR_OPTIONS, "--collector CLUSTER_ID")
    required |= {} if from_acm else {"managed_clusters": "--from-acm"}
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name in required:
            raise click.UsageError(
                f"{parameter.opts[0]} has no effect without {required[parameter.name]}: "
                f"add that, or leave {parameter.opts[0]} out"
            )


def _write(path: Path, text: str) -> bool:
    """Write a file unless it exists; returns whether it was written."""
    if path.exists():
        return False
    write_whole(path, text.encode())
    return True


def _acm(home: Home, managed_clusters: tuple[str, ...]) -> dict[str, str]:
    names = set(managed_clusters)
    names |= {row.cluster_name for row in load_decisions(decision_files(home)).clusters}
    if not names:
        raise click.UsageError(
            "--from-acm needs the clusters whose metrics the reader may see: add --managed-cluster "
            "NAME for each of `oc get managedclusters`, or rows to decisions/clusters.csv"
        )
    return {
        "acm/1-hub-allowlist.yaml": allowlist(load_settings(home.config_path).pod_labels),
        "acm/2-hub-reader.yaml": reader(names),
        "acm/3-every-cluster-admission-policy.yaml": admission_policy(),
    }
