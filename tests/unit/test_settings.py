"""config.toml: valid settings, and the errors of invalid ones.

Put here: reading, strictness, messages with lines. Not here: the decision tables.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from ingestion.exporter_pins import Pins
from ingestion.settings import (
    DEFAULT_REPLICA_LABELS,
    SettingNotValid,
    Settings,
    SettingsUnreadable,
    load_settings,
    parse_settings,
    template_config,
)
from warehouse.engine import Engine

HUB = '[thanos.hub]\nurl = "https://hub.test/"\n'
WHOLE = """
[storage]
landing = "s3://bucket/landing"
record = "s3://bucket/record"

[pull]
pod_labels = ["app.kubernetes.io/part-of"]

[schedule]
close_on_schedule = true
postgres_url_file = "/run/secrets/postgres"

[engine]
kind = "spark"
master = "spark://spark.test:7077"
exchange = "s3://bucket/exchange"

[portal.review_clusters]
6f1c1f0a-0b5e = "/run/secrets/portal.kubeconfig"

[thanos.hub]
url = "https://hub.test/api/metrics/v1/default"
token_file = "/run/secrets/token"
ca_file = "/run/secrets/ca.crt"
client_certificate_file = "/run/secrets/tls.crt"
client_key_file = "/run/secrets/tls.key"
proxy = "http://proxy.test:3128"
timeout_seconds = 60
cluster_matcher = 'cluster="{cluster_id}"'
replica_labels = ["replica"]
raw_retention_days = 30

[thanos.hub.pins]
kube_state_metrics = ["monitoring/kube-state-metrics"]
devices = ["gpu-operator/nvidia-dcgm-exporter", "amd-metrics"]

[clusters.6f1c1f0a-0b5e]
thanos = "hub"

[clusters.6f1c1f0a-0b5e.kubernetes]
url = "https://api.test:6443"
token_file = "/run/secrets/api"
journal = "s3://bucket/journal"

[clusters.samples-only]
thanos = "hub"
"""


def test_every_setting_is_read() -> None:
    settings = parse_settings(WHOLE)
    assert settings.landing == "s3://bucket/landing"
    assert settings.record == "s3://bucket/record"
    assert settings.pod_labels == ("app.kubernetes.io/part-of",)
    assert settings.close_on_schedule
    assert settings.engine == Engine("spark", "spark://spark.test:7077", "s3://bucket/exchange")
    assert settings.postgres_url_file == "/run/secrets/postgres"
    assert settings.review_clusters == {"6f1c1f0a-0b5e": "/run/secrets/portal.kubeconfig"}
    thanos = settings.cluster("6f1c1f0a-0b5e").thanos
    assert thanos is not None
    assert thanos.connection.url == "https://hub.test/api/metrics/v1/default"
    assert thanos.connection.token_file == "/run/secrets/token"
    assert thanos.connection.ca_file == "/run/secrets/ca.crt"
    assert thanos.connection.client_certificate_file == "/run/secrets/tls.crt"
    assert thanos.connection.client_key_file == "/run/secrets/tls.key"
    assert thanos.connection.proxy == "http://proxy.test:3128"
    assert thanos.connection.timeout_seconds == 60
    assert thanos.cluster_matcher == 'cluster="{cluster_id}"'
    assert thanos.replica_labels == ("replica",)
    assert thanos.raw_retention_days == 30
    assert thanos.pins.kube_state_metrics == ("monitoring/kube-state-metrics",)
    assert thanos.pins.scheduler == ()
    assert thanos.pins.devices == ("gpu-operator/nvidia-dcgm-exporter", "amd-metrics")
    kubernetes = settings.cluster("6f1c1f0a-0b5e").kubernetes
    assert kubernetes is not None
    assert kubernetes.connection.url == "https://api.test:6443"
    assert kubernetes.journal == "s3://bucket/journal"
    assert settings.cluster("samples-only").kubernetes is None


def test_an_empty_file_queries_no_source() -> None:
    assert parse_settings("") == Settings()


def test_omitted_settings_have_defaults() -> None:
    settings = parse_settings(HUB + '[clusters.c]\nthanos = "hub"\n')
    thanos = settings.cluster("c").thanos
    assert thanos is not None
    assert thanos.connection.url == "https://hub.test"  # without a trailing slash
    assert thanos.connection.timeout_seconds == 300
    assert thanos.cluster_matcher == 'clusterID="{cluster_id}"'
    assert thanos.replica_labels == DEFAULT_REPLICA_LABELS


def test_matchers_exclude_series_of_other_sources() -> None:
    pinned = 'clusterID="{cluster_id}",prometheus="openshift-monitoring/k8s"'
    text = HUB + f"cluster_matcher = '{pinned}'\n[clusters.c]\nthanos = \"hub\"\n"
    thanos = parse_settings(text).clusters["c"].thanos
    assert thanos is not None
    assert thanos.cluster_matcher == pinned


def test_a_prometheus_of_one_cluster_needs_no_matcher() -> None:
    text = HUB + 'cluster_matcher = ""\n[clusters.c]\nthanos = "hub"\n'
    thanos = parse_settings(text).cluster("c").thanos
    assert thanos is not None
    assert thanos.cluster_matcher == ""


KUBERNETES = "[clusters.c.kubernetes]\nurl = 'https://api.test'\n"
REFUSED = {
    "an unknown section": ("[place]\n", 1, "unknown key 'place'"),
    "an unknown key": ("[storage]\nlanding = 's3://b'\nrecords = 's3://b'\n", 3, "'records'"),
    "an unknown key of a server": (HUB + "timeout = 3\n", 3, "'timeout'"),
    "an unknown key of a cluster": ("[clusters.c]\nthanso = 'hub'\n", 2, "'thanso'"),
    "text for a number": (HUB + "timeout_seconds = '300'\n", 3, "not a whole number"),
    "a flag for a number": (HUB + "timeout_seconds = true\n", 3, "not a whole number"),
    "a time of zero": (HUB + "timeout_seconds = 0\n", 3, "below 1"),
    "an unknown engine": ("[engine]\nkind = 'polars'\n", 2, "'polars'"),
    "a master for DuckDB": ("[engine]\nmaster = 'local[2]'\n", 2, "the engine is duckdb"),
    "a Spark Connect server": (
        "[engine]\nkind = 'spark'\nmaster = 'sc://spark.test'\n",
        3,
        "share one catalogue",
    ),
    "a password in an exchange": (
        "[engine]\nkind = 'spark'\nexchange = 's3://u:canary@bucket'\n",
        3,
        "a password",
    ),
    "text for a flag": ("[schedule]\nclose_on_schedule = 'no'\n", 2, "not true or false"),
    "a list of numbers": ("[pull]\npod_labels = [1]\n", 2, "not a list of names"),
    "no url": ("[thanos.hub]\ntimeout_seconds = 3\n", 1, "url is missing"),
    "a url without a scheme": ("[thanos.hub]\nurl = 'hub.test'\n", 2, "'hub.test'"),
    "a password in a url": ("[thanos.hub]\nurl = 'https://u:canary@hub'\n", 2, "a password"),
    "a token in a url": ("[thanos.hub]\nurl = 'https://hub/?token=canary'\n", 2, "a query"),
    "a password before a name": ("[thanos.hub]\nurl = 'u:canary@hub'\n", 2, "a password"),
    "no address": ("[thanos.hub]\nurl = 'https://[hub'\n", 2, "not an address"),
    "a proxy with a password": (HUB + "proxy = 'http://u:canary@p:1'\n", 3, "a password"),
    "a proxy with a password only": (HUB + "proxy = 'u:canary@p:1'\n", 3, "a password"),
    "an invalid proxy": (HUB + "proxy = 'socks5://p:1'\n", 3, "'socks5://p:1'"),
    "a password in a bucket": ("[storage]\nrecord = 's3://u:canary@b/r'\n", 2, "a password"),
    "a password in a spool": (KUBERNETES + "journal = 's3://u:canary@b'\n", 3, "a password"),
    "a password in a collector's proxy": (KUBERNETES + "proxy = 'u:canary@p'\n", 3, "a password"),
    "a time limit of a watch": (KUBERNETES + "timeout_seconds = 3\n", 3, "'timeout_seconds'"),
    "samples kept for zero time": (HUB + "raw_retention_days = 0\n", 3, "days is 0"),
    "samples kept for less": (HUB + "raw_retention_days = -1\n", 3, "days is -1"),
    "a token over http": ("[thanos.hub]\ntoken_file = 't'\nurl = 'http://hub'\n", 3, "http://"),
    "half a certificate": (HUB + "client_key_file = 'tls.key'\n", 1, "one is missing"),
    "an invalid matcher": (HUB + "cluster_matcher = 'clusterID'\n", 3, "neither a label matcher"),
    "matchers with a space": (
        HUB + 'cluster_matcher = \'a="1", b="2"\'\n',
        3,
        "neither a label matcher",
    ),
    "a matcher that leaves its quotes": (
        HUB + """cluster_matcher = 'a="x"} or up{b="y"'\n""",
        3,
        "neither a label matcher",
    ),
    "an invalid replica label": (HUB + "replica_labels = ['a-b']\n", 3, "not a list of names"),
    "a pin of no exporter": (HUB + "[thanos.hub.pins]\nkubelet = ['a/b']\n", 4, "'kubelet'"),
    "a pin as text": (HUB + "[thanos.hub.pins]\ndevices = 'a/b'\n", 4, "not a list of names"),
    "a pin that leaves its quotes": (
        HUB + "[thanos.hub.pins]\nscheduler = ['a\"} or up{b=\"']\n",
        4,
        "not a list of names",
    ),
    "pins as a value": (HUB + "pins = 3\n", 3, "not a table"),
    "an unknown server": ("[clusters.c]\nthanos = 'hub'\n", 2, "'hub' is not a server"),
    "a cluster id that leaves its folder": ('[clusters."../x"]\n', 1, "cannot be a cluster ID"),
    "a section as a value": ("storage = 3\n", 1, "not a table"),
    "a server as a value": ("[thanos]\nhub = 'https://hub'\n", 1, "not a table of tables"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_invalid_setting_is_refused_with_its_line(name: str) -> None:
    text, line, seen = REFUSED[name]
    with pytest.raises(SettingNotValid) as caught:
        parse_settings(text, "config.toml")
    assert caught.value.where == f"config.toml:{line}"
    assert seen in caught.value.seen
    assert "canary" not in caught.value.message()
    assert caught.value.exit_code == 2


def test_a_token_may_be_sent_over_http_only_to_this_machine() -> None:
    for host in ("127.0.0.1:9090", "localhost", "[::1]:9090"):
        assert (
            parse_settings(f"[thanos.a]\nurl = 'http://{host}'\ntoken_file = 't'\n") == Settings()
        )


def test_invalid_toml_is_refused_with_its_position() -> None:
    with pytest.raises(SettingsUnreadable, match="line 2"):
        parse_settings("[storage]\nlanding = \n")


def test_a_missing_or_binary_file_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(SettingsUnreadable):
        load_settings(tmp_path / "config.toml")
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsUnreadable):
        load_settings(tmp_path / "config.toml")


def test_a_cluster_without_settings_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingNotValid) as caught:
        parse_settings("[clusters.here]\n").cluster("there")
    assert "known clusters: here" in caught.value.seen


def test_the_unchanged_template_queries_no_source() -> None:
    assert parse_settings(template_config()) == Settings()


def test_the_template_shows_every_setting_and_is_valid_uncommented() -> None:
    uncommented = re.sub(
        r"^# ?(?=\[|[a-z_]+ = |    |                  )", "", template_config(), flags=re.MULTILINE
    )
    settings = parse_settings(uncommented)
    given = tomllib.loads(uncommented)
    assert set(given["thanos"]["hub"]) == {
        "url",
        "token_file",
        "ca_file",
        "client_certificate_file",
        "client_key_file",
        "proxy",
        "timeout_seconds",
        "cluster_matcher",
        "raw_retention_days",
        "replica_labels",
        "pins",
    }
    assert set(given["thanos"]["hub"]["pins"]) == {field.name for field in fields(Pins)}
    [cluster] = settings.clusters.values()
    assert cluster.thanos is not None
    assert cluster.thanos.replica_labels == DEFAULT_REPLICA_LABELS  # the shown defaults are correct
    assert cluster.thanos.connection.timeout_seconds == 300
    assert cluster.thanos.raw_retention_days == 365
    assert cluster.kubernetes is not None
    assert cluster.kubernetes.journal.startswith("s3://")
