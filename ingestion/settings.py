"""The settings: config.toml as typed values, strictly read.

Put here: the keys of config.toml, their defaults with reasons, and the commented file that
`gpu-ledger init` writes.
Not here: dated decisions (`decisions/*.csv`): intervals, prices, tenants, gaps; nor secrets, of
which only file names are in config.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from clients.credentials import ServerAccess
from domain.errors import BadInput
from ingestion.addresses import Fault, place_fault, proxy_fault, server_fault
from ingestion.exporter_pins import NO_PINS, PIN, Pins
from warehouse.engine import DUCKDB, KINDS, ON_DUCKDB, Engine
from warehouse.manifest import Sampling
from warehouse.store import KeyNotAllowed, validate_key

DEFAULT_TIMEOUT_SECONDS = 300
"""ACM's own query timeout; a shorter one of ours would give up while the server still works."""

DEFAULT_REPLICA_LABELS = (
    "prometheus_replica",
    "replica",
    "receive_replica",
    "receive",
    "rule_replica",
    "thanos_replica",
    "__replica__",
)
"""Labels that tell copies of one series apart; removed by us, and the copies united."""

DEFAULT_RAW_RETENTION_DAYS = 365
"""ACM's default. Older hours hold only averages, which are not samples."""

DEFAULT_CLUSTER_MATCHER = 'clusterID="{cluster_id}"'
"""ACM adds `clusterID`, which survives a renaming; a Prometheus of one cluster has none ("")."""

_MATCHER = r'[a-zA-Z_][a-zA-Z0-9_]*(=~|!~|!=|=)"[^"\\\n]*"'
_MATCHERS = re.compile(f"{_MATCHER}(,{_MATCHER})*", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


class SettingNotValid(BadInput):
    """A key that is unknown, missing or of the wrong kind in config.toml."""

    code = "CONF-001"

    def __init__(self, where: str, seen: str, remedy: str) -> None:
        super().__init__(
            where=where,
            seen=seen,
            why="a setting that is ignored would change the queries without notice",
            remedy=remedy,
        )


class SettingsUnreadable(BadInput):
    """config.toml is not TOML, or not readable."""

    code = "CONF-001"

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(
            where=where,
            seen=f"it cannot be read: {cause}",
            why="without settings there is no source to pull from",
            remedy="correct that line; "
            "`gpu-ledger init FOLDER` writes a complete example into an empty folder",
        )


@dataclass(frozen=True, slots=True)
class Connection:
    """How a server is reached; secrets are named by their files, which are read again each time."""

    url: str
    token_file: str = ""
    ca_file: str = ""
    client_certificate_file: str = ""
    client_key_file: str = ""
    proxy: str = ""
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS

    @property
    def access(self) -> ServerAccess:
        """The address and the credentials, for a client."""
        return ServerAccess(
            self.url,
            ca_file=_path(self.ca_file),
            token_file=_path(self.token_file),
            certificate_file=_path(self.client_certificate_file),
            key_file=_path(self.client_key_file),
            proxy=self.proxy,
        )


def _path(name: str) -> Path | None:
    return Path(name) if name else None


@dataclass(frozen=True, slots=True)
class ThanosSettings:
    """A Prometheus-compatible server that holds the samples of one or more clusters."""

    name: str
    connection: Connection
    cluster_matcher: str = DEFAULT_CLUSTER_MATCHER
    replica_labels: tuple[str, ...] = DEFAULT_REPLICA_LABELS
    raw_retention_days: int = DEFAULT_RAW_RETENTION_DAYS
    pins: Pins = NO_PINS


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """The API server of one cluster, and where its collector keeps the journal."""

    connection: Connection
    journal: str = ""  # folder or URL; "" means HOME/journal/<cluster_id>


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The servers of one cluster."""

    cluster_id: str
    thanos: ThanosSettings | None = None
    kubernetes: KubernetesSettings | None = None


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """Whether gpu-ledger sends alerts, and where."""

    send: bool = False
    alertmanagers: tuple[str, ...] = ()  # every peer; a name with several addresses is as many
    token_file: str = ""
    ca_file: str = ""
    client_certificate_file: str = ""
    client_key_file: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """The content of config.toml."""

    clusters: Mapping[str, ClusterSettings] = field(default_factory=dict)
    pod_labels: tuple[str, ...] = ()  # the allow-list: only these labels of pods are kept
    landing: str = ""
    record: str = ""
    close_on_schedule: bool = False
    postgres_url_file: str = ""
    review_clusters: Mapping[str, str] = field(default_factory=dict)  # cluster ID → kubeconfig
    alerts: AlertSettings = AlertSettings()
    engine: Engine = ON_DUCKDB

    def cluster(self, cluster_id: str) -> ClusterSettings:
        """The settings of a cluster; refuses a cluster that config.toml does not have."""
        if cluster_id not in self.clusters:
            known = ", ".join(sorted(self.clusters)) or "none"
            raise SettingNotValid(
                "config.toml",
                f"no [clusters.{cluster_id}]; known clusters: {known}",
                f"add [clusters.{cluster_id}], or correct cluster_id in decisions/clusters.csv",
            )
        return self.clusters[cluster_id]


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The server of a cluster, and its sampling intervals during one window."""

    cluster_id: str
    thanos: ThanosSettings
    sampling: Sampling
    pod_labels: tuple[str, ...] = ()


def load_settings(path: Path) -> Settings:
    """Read config.toml."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as cause:
        raise SettingsUnreadable(str(path), cause.strerror or str(cause)) from None
    except UnicodeDecodeError as cause:
        raise SettingsUnreadable(str(path), f"not UTF-8 text: {cause.reason}") from None
    return parse_settings(text, str(path))


def parse_settings(text: str, where: str = "config.toml") -> Settings:
    """The settings in a text; an unknown key is refused with its line."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as cause:
        raise SettingsUnreadable(where, str(cause)) from None
    return _SettingsReader(text, where).settings(tables)


def template_config() -> str:
    """The commented config.toml that `gpu-ledger init` writes."""
    return (Path(__file__).parent / "config_template.toml").read_text(encoding="utf-8")


class _SettingsReader:
    """Walks the tables once; keeps the text, to name the line in an error."""

    def __init__(self, text: str, where: str) -> None:
        self._lines = text.splitlines()
        self._where = where

    def settings(self, tables: dict[str, Any]) -> Settings:
        known = {
            "storage",
            "pull",
            "engine",
            "schedule",
            "alerts",
            "portal",
            "thanos",
            "clusters",
        }
        self._only(tables, "", known)
        storage = self._table(tables, "storage", {"landing": str, "record": str})
        for key, location in storage.items():
            self._address("storage", key, place_fault(location))
        pull = self._table(tables, "pull", {"pod_labels": list})
        schedule = self._table(
            tables, "schedule", {"close_on_schedule": bool, "postgres_url_file": str}
        )
        servers = {
            name: self._thanos(name, table) for name, table in self._named(tables, "thanos").items()
        }
        clusters = {
            cluster_id: self._cluster(cluster_id, table, servers)
            for cluster_id, table in self._named(tables, "clusters").items()
        }
        portal = self._table(tables, "portal", {"review_clusters": dict})
        for cluster_id, kubeconfig in portal.get("review_clusters", {}).items():
            self._expect("portal.review_clusters", cluster_id, kubeconfig, str)
        pod_labels = self._texts("pull", "pod_labels", pull.get("pod_labels", []), None)
        return Settings(
            clusters=clusters,
            pod_labels=pod_labels,
            alerts=self._alerts(tables),
            engine=self._engine(tables),
            **storage,
            **schedule,
            **portal,
        )

    def _engine(self, tables: dict[str, Any]) -> Engine:
        table = self._table(tables, "engine", {field.name: str for field in fields(Engine)})
        engine = Engine(**table)
        if engine.kind not in KINDS:
            self._refuse(
                "engine",
                "kind",
                f"kind is {engine.kind!r}",
                f'write kind = "{KINDS[0]}" or kind = "{KINDS[1]}"',
            )
        for key in ("master", "exchange"):
            if engine.kind == DUCKDB and key in table:
                self._refuse(
                    "engine",
                    key,
                    f"{key} is set, and the engine is {DUCKDB}, which does not use it",
                    f'write kind = "{KINDS[1]}" above it, or remove the line',
                )
        if engine.master.startswith("sc:"):
            self._refuse(
                "engine",
                "master",
                "master is the address of Spark Connect, whose sessions share one catalogue",
                'write the master itself, as in master = "spark://host:7077"',
            )
        self._address("engine", "exchange", place_fault(engine.exchange))
        return engine

    def _alerts(self, tables: dict[str, Any]) -> AlertSettings:
        kinds = {"send": bool, "alertmanagers": list}
        keys = {f.name: kinds.get(f.name, str) for f in fields(AlertSettings)}
        table = self._table(tables, "alerts", keys)
        peers = self._texts("alerts", "alertmanagers", table.pop("alertmanagers", []), None)
        for url in peers:
            fault = server_fault(url, sends_token=bool(table.get("token_file")))
            self._address("alerts", "alertmanagers", fault)
        self._require_pair("alerts", table)
        if table.get("send") and not peers:
            self._refuse(
                "alerts",
                "send",
                "send is true, and alertmanagers is empty",
                'write alertmanagers = ["https://…"], the addresses without /api/v2',
            )
        return AlertSettings(alertmanagers=peers, **table)

    def _thanos(self, name: str, table: dict[str, Any]) -> ThanosSettings:
        section = f"thanos.{name}"
        others = {"cluster_matcher", "replica_labels", "raw_retention_days", "pins"}
        connection = self._connection(section, table, others)
        matcher = table.get("cluster_matcher", DEFAULT_CLUSTER_MATCHER)
        if not isinstance(matcher, str) or (matcher and not _MATCHERS.fullmatch(matcher)):
            self._refuse(
                section,
                "cluster_matcher",
                f"{matcher!r} is neither a label matcher nor a list of them",
                'write cluster_matcher = \'clusterID="{cluster_id}"\', or "" for one cluster',
            )
        labels = table.get("replica_labels", list(DEFAULT_REPLICA_LABELS))
        days = table.get("raw_retention_days", DEFAULT_RAW_RETENTION_DAYS)
        self._expect(section, "raw_retention_days", days, int)
        if days < 1:
            self._refuse(
                section,
                "raw_retention_days",
                f"raw_retention_days is {days}: no hour could be pulled",
                "give the retention of raw samples in whole days",
            )
        labels = self._texts(section, "replica_labels", labels, _LABEL)
        pins = self._pins(f"{section}.pins", table.get("pins", {}))
        return ThanosSettings(name, connection, matcher, labels, days, pins)

    def _pins(self, section: str, table: Any) -> Pins:
        if not isinstance(table, dict):
            server = section.removesuffix(".pins")
            self._refuse(server, "pins", "it is not a table", f"write [{section}]")
        self._only(table, section, {field.name for field in fields(Pins)})
        return Pins(**{key: self._texts(section, key, jobs, PIN) for key, jobs in table.items()})

    def _cluster(
        self, cluster_id: str, table: dict[str, Any], servers: Mapping[str, ThanosSettings]
    ) -> ClusterSettings:
        section = f"clusters.{cluster_id}"
        try:
            validate_key(cluster_id)
        except KeyNotAllowed:
            self._refuse(
                section,
                cluster_id,
                f"{cluster_id!r} cannot be a cluster ID",
                "use the UID of the cluster's kube-system namespace",
            )
        self._only(table, section, {"thanos", "kubernetes"})
        server = table.get("thanos")
        if server is not None and server not in servers:
            self._refuse(
                section,
                "thanos",
                f"{server!r} is not a server here; there are: {', '.join(sorted(servers)) or '-'}",
                f"add [thanos.{server}] with its url, or name one that is there",
            )
        kubernetes = None
        if "kubernetes" in table:
            kubernetes = self._kubernetes(f"{section}.kubernetes", table["kubernetes"])
        return ClusterSettings(cluster_id, servers[server] if server else None, kubernetes)

    def _kubernetes(self, section: str, table: Any) -> KubernetesSettings:
        if not isinstance(table, dict):
            self._refuse(section, "kubernetes", "it is not a table", f"write [{section}]")
        # A watch has limits of its own, beside its code.
        connection = self._connection(section, table, {"journal"}, unused={"timeout_seconds"})
        journal = table.get("journal", "")
        if not isinstance(journal, str):
            self._refuse(section, "journal", f"{journal!r} is not text", "a folder or a URL")
        self._address(section, "journal", place_fault(journal))
        return KubernetesSettings(connection, journal)

    def _connection(
        self, section: str, table: dict[str, Any], others: set[str], unused: Set[str] = frozenset()
    ) -> Connection:
        names = {f.name: int if f.name == "timeout_seconds" else str for f in fields(Connection)}
        names = {name: kind for name, kind in names.items() if name not in unused}
        self._only(table, section, set(names) | others)
        values = {key: table[key] for key in names if key in table}
        for key, value in values.items():
            self._expect(section, key, value, names[key])
        url = values.get("url", "")
        sends_token = "token_file" in values
        self._address(section, "proxy", proxy_fault(values.get("proxy", "")))
        self._address(section, "url", server_fault(url, sends_token=sends_token))
        self._require_pair(section, values)
        if values.get("timeout_seconds", 1) < 1:
            self._refuse(section, "timeout_seconds", "it is below 1", "give whole seconds")
        return Connection(**{**values, "url": url.rstrip("/")})

    def _require_pair(self, section: str, values: Mapping[str, Any]) -> None:
        if bool(values.get("client_certificate_file")) != bool(values.get("client_key_file")):
            self._refuse(
                section,
                "client_certificate_file",
                "a client certificate and its key come in two files, and one is missing",
                "give both client_certificate_file and client_key_file",
            )

    def _address(self, section: str, key: str, fault: Fault | None) -> None:
        if fault:
            self._refuse(section, key, *fault)

    def _table(self, tables: dict[str, Any], name: str, keys: dict[str, type]) -> dict[str, Any]:
        table = tables.get(name, {})
        if not isinstance(table, dict):
            self._refuse(name, name, "it is not a table", f"write [{name}]")
        self._only(table, name, set(keys))
        for key, value in table.items():
            self._expect(name, key, value, keys[key])
        return dict(table)

    def _named(self, tables: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
        found = tables.get(name, {})
        if not isinstance(found, dict) or not all(isinstance(t, dict) for t in found.values()):
            self._refuse(name, name, "it is not a table of tables", f"write [{name}.NAME]")
        return dict(found)

    def _texts(
        self, section: str, key: str, value: Any, form: re.Pattern[str] | None
    ) -> tuple[str, ...]:
        right = isinstance(value, list) and all(
            isinstance(item, str) and (form is None or form.fullmatch(item)) for item in value
        )
        if not right:
            self._refuse(section, key, f"{value!r} is not a list of names", f'{key} = ["a", "b"]')
        return tuple(value)

    def _expect(self, section: str, key: str, value: Any, kind: type) -> None:
        if type(value) is not kind:
            words = {str: "text in quotes", int: "a whole number", bool: "true or false"}
            wanted = words.get(kind, "a list")
            self._refuse(section, key, f"{key} is {value!r}, not {wanted}", f"give {wanted}")

    def _only(self, table: dict[str, Any], section: str, known: set[str]) -> None:
        for key in table:
            if key not in known:
                self._refuse(
                    section,
                    key,
                    f"unknown key {key!r}",
                    f"known here: {', '.join(sorted(known))}",
                )

    def _refuse(self, section: str, key: str, seen: str, remedy: str) -> NoReturn:
        line = self._line(section, key)
        where = f"{self._where}:{line}" if line else self._where
        raise SettingNotValid(where, f"[{section}] {seen}" if section else seen, remedy)

    def _line(self, section: str, key: str) -> int:
        """The line that sets the key, or else opens its section; 0 if neither is found."""
        current, opened = "", 0
        for number, line in enumerate(self._lines, 1):
            text = line.strip()
            if text.startswith("["):
                current = text.strip("[] \t").replace('"', "")
                if current in (key, section, f"{section}.{key}") and not opened:
                    opened = number
            name = text.partition("=")[0].strip().strip('"')
            if name == key and "=" in text and current in ("", section):
                return number
        return opened
