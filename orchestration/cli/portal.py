"""`gpu-ledger portal`: web pages and an HTTP API for tenants, the provider and programme owners.

Put here: the commands, and the server's process.
Not here: pages, the API and tokens (`portal`), or writing snapshots (`orchestration.publishing`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

import click
import uvicorn
from prometheus_client import start_http_server

from clients.kubeconfig import find_cluster_access
from clients.kubernetes import KubernetesClient
from domain.errors import LedgerError
from orchestration.alerting import metrics_of
from orchestration.cli.output import home_option
from orchestration.open_home import OpenHome
from portal.access import Hosts
from portal.callers import Authority
from portal.certificates import CertificateFiles
from portal.metrics import registry_of
from portal.reviews import Reviews, ReviewsOfClusters
from portal.site import log_to_stderr, make_site
from portal.tokens import FILE, TENANT, TokenFile, create_token
from portal.visits import PortalSettings
from warehouse.snapshot_reader import Snapshots

EPILOG = """\b
Examples:
  gpu-ledger portal token create --tenant vision
  gpu-ledger portal --home my-ledger
  gpu-ledger portal --host 0.0.0.0 --name gpu.example.com --tls-certificate crt --tls-key key
"""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
CONCURRENT_LIMIT = 200
"""Requests at a time, of all callers; more get 503 from the server itself."""
TOKENS, KUBERNETES = "tokens", "kubernetes"
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


@click.group(invoke_without_command=True, epilog=EPILOG)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8443, show_default=True, help="Port to listen on.")
@click.option(
    "--name",
    "names",
    multiple=True,
    help="Host name in the address that browsers use, if it is not --host (repeatable).",
)
@click.option(
    "--tls-certificate",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with the certificate chain, as PEM.",
)
@click.option(
    "--tls-key",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with the private key, as PEM.",
)
@click.option(
    "--auth",
    type=click.Choice([TOKENS, KUBERNETES]),
    default=TOKENS,
    show_default=True,
    help="How callers are authenticated: by portal-tokens.csv in the home, or by a Kubernetes "
    "API server that reviews their bearer tokens.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="With --auth kubernetes: kubeconfig of the portal's account (default: the pod's "
    "ServiceAccount, else $KUBECONFIG or ~/.kube/config). Not used where config.toml has "
    "[portal.review_clusters].",
)
@click.option(
    "--audience",
    default="gpu-ledger",
    show_default=True,
    help="With --auth kubernetes: audience that a ServiceAccount's token must have.",
)
@click.option(
    "--dagster-url",
    default="",
    help="Address of the Dagster web UI, for links on the provider's page.",
)
@click.option(
    "--metrics-port",
    type=int,
    help="Port of /metrics for the provider's Prometheus, without TLS and tokens: allow no other "
    "client to reach it (default: no metrics).",
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    show_default=True,
    help="With --metrics-port: address to listen on.",
)
@home_option
@click.pass_context
def portal(
    context: click.Context,
    host: str,
    port: int,
    names: tuple[str, ...],
    tls_certificate: Path | None,
    tls_key: Path | None,
    auth: str,
    kubeconfig: Path | None,
    audience: str,
    dagster_url: str,
    metrics_port: int | None,
    metrics_host: str,
    home_path: Path,
) -> None:
    """Serve consumption and cost to tenants, the provider and programme owners.

    Pages are read from the snapshots in snapshots/, which refresh, check, close, void and publish
    write. A caller sees only the tenants and roles of its token. The server never opens the
    warehouse and needs to read snapshots/, documents/ and the file of tokens only.
    """
    if context.invoked_subcommand is not None:
        return
    if (tls_certificate is None) != (tls_key is None):
        raise click.UsageError("give both --tls-certificate and --tls-key, or neither")
    if tls_certificate is None and host not in LOOPBACK:
        click.echo(
            "Without TLS, tokens are sent in plain text: only a proxy with TLS on this machine "
            "may forward requests.",
            err=True,
        )

    opened = OpenHome.at(home_path)
    own = Hosts.of(host)
    hosts = dataclasses.replace(own, names=own.names | {name.lower() for name in names})
    settings = PortalSettings(
        snapshots=Snapshots(opened.home.snapshots),
        documents=opened.home.documents,
        authority=TokenFile(opened.home.path / FILE)
        if auth == TOKENS
        else reviews(opened.settings.review_clusters, kubeconfig, audience),
        clock=opened.clock,
        has_login=auth == TOKENS,
        is_tls=tls_certificate is not None,
        dagster_url=dagster_url.rstrip("/"),
    )
    try:
        settings.snapshots.tenants()
    except (
        LedgerError
    ) as missing:  # it serves as soon as there are some; until then /healthz is 503
        click.echo(missing.message(), err=True)
    log_to_stderr()
    if metrics_port is not None:
        serve_metrics(opened, metrics_host, metrics_port)
    scheme = "https" if tls_certificate else "http"
    click.echo(f"The portal is at {scheme}://{names[0] if names else host}:{port}/", err=True)
    config = uvicorn.Config(
        make_site(settings, hosts),
        host=host,
        port=port,
        ssl_certfile=tls_certificate,
        ssl_keyfile=tls_key,
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_level="warning",
        limit_concurrency=CONCURRENT_LIMIT,
        timeout_keep_alive=10,
        h11_max_incomplete_event_size=16_384,
    )
    config.load()
    if config.ssl is not None and tls_certificate and tls_key:
        CertificateFiles(tls_certificate, tls_key).watch(config.ssl)
    uvicorn.Server(config).run()


def serve_metrics(opened: OpenHome, host: str, port: int) -> None:
    """Serve /metrics in a thread of its own; both sides read the same snapshots."""
    start_http_server(port, host, registry=registry_of(metrics_of(opened)))
    click.echo(f"Metrics are at http://{host}:{port}/metrics", err=True)


def reviews(
    review_clusters: Mapping[str, str], kubeconfig: Path | None, audience: str
) -> Authority:
    """The API servers that review tokens: those of the listed clusters, else that of the hub."""
    if not review_clusters:
        return Reviews(KubernetesClient(find_cluster_access(kubeconfig)), audience)
    return ReviewsOfClusters(
        {
            cluster_id: Reviews(KubernetesClient(find_cluster_access(Path(path))), audience)
            for cluster_id, path in review_clusters.items()
        }
    )


TOKEN_EPILOG = """\b
Examples:
  gpu-ledger portal token create --tenant vision
  gpu-ledger portal token create --role provider
"""


@portal.group(epilog=TOKEN_EPILOG)
def token() -> None:
    """Make tokens for callers, for sites without a cluster that reviews them."""


@token.command(epilog=TOKEN_EPILOG)
@click.option("--tenant", default="", help="Tenant that the caller may see.")
@click.option(
    "--role",
    type=click.Choice(["provider", "programme"]),
    help="Role of the caller, instead of a tenant: all tenants, or nodes and GPUs only.",
)
@home_option
def create(tenant: str, role: str | None, home_path: Path) -> None:
    """Make a token, print it once, and add its salted hash to portal-tokens.csv in the home.

    To end a token and its sessions, delete its line there.
    """
    if bool(tenant) == bool(role):
        raise click.UsageError("give either --tenant TENANT or --role provider|programme")
    opened = OpenHome.at(home_path)
    if tenant and not NAMESPACE.fullmatch(tenant):
        raise click.UsageError(f"{tenant!r} is not the name of a namespace")
    path = opened.home.path / FILE
    click.echo(
        create_token(path, role or TENANT, tenant, opened.clock.now().replace(microsecond=0))
    )
