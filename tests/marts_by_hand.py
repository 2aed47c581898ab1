"""A home with marts written by hand: facts without dbt, for tests of check and billing.

Put here: the columns in the contract between facts and billing, and a short way to fill them.
Costs are calculated with fractions and Python's own rounding, not with the code that is tested.
Not here: fleets, evidence, or tests that need the whole pipeline.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from domain.billing_period import BillingPeriod
from domain.decisions import Amendment, Decisions, TableName, load_decisions
from domain.interval import Interval, hour_of
from quality.causes import NEEDED_METRICS
from quality.checks import ALWAYS, WITH_ROWS, write_dbt_tests
from tests.decisions_by_hand import HEADERS
from warehouse.connection import connected
from warehouse.content_hash import period_sha256
from warehouse.dbt_run import DbtTest
from warehouse.home import Home
from warehouse.raw_schema import insert_rows

HOUR = timedelta(hours=1)
CARDS = 64
SHARE_UNITS = 42
"""Of one card: halves, thirds and sevenths of it are whole numbers."""

CLUSTERS = (
    "cluster_id,cluster_name,valid_from,valid_until,sources,sample_interval_seconds,"
    "scrape_interval_seconds,reason,decided_by,decided_on\n"
)
RATES = (
    "cluster_id,gpu_class,mig_profile,currency,rate_per_hour,valid_from,valid_until,"
    "reason,decided_by,decided_on,second_name\n"
)
GAPS = "cluster_id,source,started_at,ended_at,treatment,reason,decided_by,decided_on,pod_uid\n"
PARTIES = (
    "role,tenant,name,address,tax_id,email,valid_from,valid_until,reason,decided_by,decided_on\n"
)
OUTAGES = (
    "cluster_id,started_at,ended_at,treatment,reason,decided_by,decided_on,node_name,pod_uid\n"
)
SIGNED = "because,ada,2026-09-01"

TABLES = {
    "fct_coverage": """
        billing_period VARCHAR, cluster_id VARCHAR, source VARCHAR, hour_started_at TIMESTAMPTZ,
        expected_count BIGINT, seen_count BIGINT, missing_count BIGINT,
        pod_missing_count BIGINT, longest_gap_seconds BIGINT, outcome VARCHAR, reason VARCHAR,
        backfillable BOOLEAN
    """,
    "fct_pod_hours": """
        billing_period VARCHAR, cluster_id VARCHAR, hour_started_at TIMESTAMPTZ, tenant VARCHAR,
        belongs_to VARCHAR, namespace VARCHAR, pod_uid VARCHAR, pod_name VARCHAR,
        workload_kind VARCHAR, workload_name VARCHAR, node_name VARCHAR, resource VARCHAR,
        device_count BIGINT, gpu_class VARCHAR, mig_profile VARCHAR,
        segment_started_at TIMESTAMPTZ, segment_ended_at TIMESTAMPTZ, state VARCHAR,
        method VARCHAR, method_reason VARCHAR, treatment VARCHAR,
        running_seconds BIGINT, held_seconds BIGINT, billable_seconds BIGINT,
        compute_share_numerator BIGINT, compute_share_denominator BIGINT,
        memory_share_numerator BIGINT, memory_share_denominator BIGINT,
        weight_numerator BIGINT, weight_denominator BIGINT, weight_policy VARCHAR,
        rate_id VARCHAR, uncertainty_seconds BIGINT, cost_nanos DECIMAL(38, 0),
        is_outage BOOLEAN
    """,
    "fct_outage_credits": """
        billing_period VARCHAR, tenant VARCHAR, belongs_to VARCHAR, cluster_id VARCHAR,
        gpu_class VARCHAR, mig_profile VARCHAR, weight_numerator BIGINT,
        weight_denominator BIGINT, weight_policy VARCHAR, rate_id VARCHAR, currency VARCHAR,
        outage_started_at TIMESTAMPTZ, credit_started_at TIMESTAMPTZ,
        credit_ended_at TIMESTAMPTZ, device_seconds BIGINT, credit_nanos DECIMAL(38, 0)
    """,
    "fct_node_share_hours": """
        billing_period VARCHAR, cluster_id VARCHAR, node_name VARCHAR, gpu_class VARCHAR,
        dimension VARCHAR, hour_started_at TIMESTAMPTZ, share_denominator BIGINT,
        installed_share_seconds DECIMAL(38, 0), running_share_seconds DECIMAL(38, 0),
        held_share_seconds DECIMAL(38, 0), idle_share_seconds DECIMAL(38, 0),
        unsold_share_seconds DECIMAL(38, 0), unhealthy_share_seconds DECIMAL(38, 0),
        withdrawn_share_seconds DECIMAL(38, 0), unmeasured_share_seconds DECIMAL(38, 0),
        overallocated_share_seconds DECIMAL(38, 0)
    """,
    "fct_cluster_hours": """
        billing_period VARCHAR, cluster_id VARCHAR, hour_started_at TIMESTAMPTZ,
        active_worker_nodes BIGINT, active_worker_nodes_max BIGINT, sum_of_node_max BIGINT,
        sum_of_node_max_bound BIGINT, simultaneous_max BIGINT, how_known VARCHAR
    """,
    "fct_node_hours": """
        billing_period VARCHAR, cluster_id VARCHAR, node_name VARCHAR,
        hour_started_at TIMESTAMPTZ, gpu_capacity BIGINT, gpu_count_max BIGINT,
        gpu_count_max_bound BIGINT, how_known VARCHAR
    """,
    "fct_gpu_use": """
        billing_period VARCHAR, cluster_id VARCHAR, node_name VARCHAR, namespace VARCHAR,
        pod_name VARCHAR, pod_uid VARCHAR, hour_started_at TIMESTAMPTZ,
        use_millionths_average BIGINT, use_millionths_maximum BIGINT,
        is_used_unallocated BOOLEAN, device_uuid VARCHAR, gpu_index VARCHAR, instance_id VARCHAR,
        sample_count BIGINT, allocated_seconds BIGINT, is_ambiguous BOOLEAN, has_two_names BOOLEAN
    """,
    "dim_budgets": """
        billing_period VARCHAR, source VARCHAR, tenant VARCHAR, budget_name VARCHAR,
        cluster_id VARCHAR, state VARCHAR, invalid_reason VARCHAR, currency VARCHAR,
        budget_nanos DECIMAL(38, 0)
    """,
    "dim_namespaces": """
        billing_period VARCHAR, cluster_id VARCHAR, namespace VARCHAR, namespace_uid VARCHAR,
        first_seen_at TIMESTAMPTZ, last_seen_at TIMESTAMPTZ, is_deleted BOOLEAN
    """,
    "fct_contradictions": """
        billing_period VARCHAR, cluster_id VARCHAR, source VARCHAR, observed_at TIMESTAMPTZ,
        object_kind VARCHAR, object_uid VARCHAR, contradiction VARCHAR, before_value VARCHAR,
        after_value VARCHAR
    """,
    "fct_gaps": """
        billing_period VARCHAR, cluster_id VARCHAR, source VARCHAR, gap_started_at TIMESTAMPTZ,
        gap_ended_at TIMESTAMPTZ
    """,
    "dim_pod_labels": """
        billing_period VARCHAR, cluster_id VARCHAR, pod_uid VARCHAR, label_key VARCHAR,
        label_value VARCHAR
    """,
    "fct_sampled_pods": """
        billing_period VARCHAR, cluster_id VARCHAR, pod_uid VARCHAR, first_sampled_at TIMESTAMPTZ,
        last_sampled_at TIMESTAMPTZ
    """,
    "fct_metric_coverage": """
        billing_period VARCHAR, cluster_id VARCHAR, metric VARCHAR, hour_started_at TIMESTAMPTZ,
        expected_count BIGINT, missing_count BIGINT
    """,
    "fct_refused_samples": """
        billing_period VARCHAR, cluster_id VARCHAR, hour_started_at TIMESTAMPTZ, metric VARCHAR,
        label_missing VARCHAR, label_invalid VARCHAR, first_sampled_at TIMESTAMPTZ,
        last_sampled_at TIMESTAMPTZ, series_count BIGINT, sample_count BIGINT, example VARCHAR
    """,
    "fct_charges": """
        billing_period VARCHAR, tenant VARCHAR, belongs_to VARCHAR, cluster_id VARCHAR,
        gpu_class VARCHAR, mig_profile VARCHAR, weight_numerator BIGINT,
        weight_denominator BIGINT, weight_policy VARCHAR, rate_id VARCHAR,
        rate_nanos_per_hour DECIMAL(38, 0), currency VARCHAR, charge_started_at TIMESTAMPTZ,
        charge_ended_at TIMESTAMPTZ, device_seconds BIGINT, cost_nanos DECIMAL(38, 0)
    """,
}


def at(text: str) -> datetime:
    """`09 14:30` or `09 14:30:15` of October 2026, UTC."""
    return datetime.fromisoformat(f"2026-10-{text}+00:00")


Loss = tuple[int, str, bool, str]
"""Remaining seconds or samples of an hour, reason, whether it can be backfilled, and outcome."""


@dataclass(frozen=True)
class Pod:
    """One pod that ran; its cost follows from its rate in the decisions."""

    tenant: str
    name: str
    started_at: datetime
    ended_at: datetime
    cluster_id: str = "c1"
    gpu_class: str = "A100-40"
    mig_profile: str = "whole"
    weight: Fraction = Fraction(1)
    device_count: int = 1
    method: str = "confirmed"
    method_reason: str = "agree"
    treatment: str = ""
    belongs_to: str = "tenant"
    uncertainty_seconds: int = 0
    workload: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def uid(self) -> str:
        return f"uid-{self.tenant}-{self.name}"


@cache
def _decisions(files: tuple[tuple[str, str], ...]) -> Decisions:
    return load_decisions(dict(files))


@dataclass
class World:
    """A period as facts; `write` makes them the only facts of the period."""

    path: Path
    period: BillingPeriod = field(default_factory=lambda: BillingPeriod("2026-10"))
    pods: list[Pod] = field(default_factory=list)
    clusters: dict[str, str] = field(default_factory=lambda: {"c1": "both"})
    rates: list[str] = field(
        default_factory=lambda: [f",A100-40,whole,EUR,3.6,2026-01-01,,{SIGNED},"]
    )
    accepted_gaps: list[str] = field(default_factory=list)
    parties: list[str] = field(default_factory=list)
    parties_header: str = PARTIES
    outages: list[str] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)
    dbt_tests_left_out: tuple[str, ...] = ()
    metrics: tuple[str, ...] = NEEDED_METRICS
    metrics_left: tuple[str, ...] = ()
    metrics_lost: tuple[str, ...] = ()
    missing: dict[tuple[str, str, datetime], Loss] = field(default_factory=dict)
    made_again: dict[str, str] = field(default_factory=dict)
    """Namespace of the first cluster → time of its second creation, such as `20 10:05`."""
    contradictions: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    """From the journal of the first cluster: time, object, contradiction, before, after."""
    budgets: list[tuple[str, str, str, str, str, str, int]] = field(default_factory=list)
    """GpuBudgets: tenant, name, cluster, state, why it is invalid, currency, nanos."""
    missing_intervals: list[tuple[str, str, Interval]] = field(default_factory=list)
    pods_missing: dict[tuple[str, str, datetime], int] = field(default_factory=dict)
    refused: list[tuple[str, str, str, str, str, int, int, str]] = field(default_factory=list)
    """Of the first cluster: metric, missing and invalid label, from, until, two counts, example."""

    @property
    def home(self) -> Home:
        return Home.create(self.path)

    def copied(self, path: Path) -> World:
        """The same world in a copy of its home, with its facts and documents."""
        shutil.copytree(self.path, path)
        return replace(deepcopy(self), path=path)

    @property
    def decisions(self) -> Decisions:
        clusters = [
            f"{name},name-of-{name},2026-01-01,,{sources},30,30,{SIGNED}"
            for name, sources in sorted(self.clusters.items())
        ]
        files = {
            "clusters.csv": CLUSTERS + "\n".join(clusters),
            "rates.csv": RATES + "\n".join(self.rates),
            "accepted_gaps.csv": GAPS + "\n".join(self.accepted_gaps),
            "parties.csv": self.parties_header + "\n".join(self.parties),
            "outages.csv": OUTAGES
            + "\n".join(row + "," * (OUTAGES.count(",") - row.count(",")) for row in self.outages),
            "policies.csv": "\n".join([HEADERS["policies"], *self.policies]),
        }
        return _decisions(tuple(files.items()))

    def decisions_with_amendment(
        self, present: Decisions, table: str, reason: str, first: str, second: str
    ) -> Decisions:
        """Present decisions, with the permission of two people to use one of their tables."""
        amendment = Amendment(
            billing_period=self.period,
            amended_table=TableName(table),
            reason=reason,
            decided_by=first,
            second_name=second,
            decided_on=date(2026, 11, 10),
        )
        return replace(present, amendments=(amendment,))

    def lose(
        self,
        source: str,
        first: str,
        hours: int = 1,
        cluster_id: str = "c1",
        *,
        seen: int = 0,
        reason: str = "query failed",
        backfillable: bool = True,
        outcome: str = "failed",
    ) -> None:
        """Remove hours of one source, completely or except for `seen`."""
        for index in range(hours):
            key = (cluster_id, source, at(first) + index * HOUR)
            self.missing[key] = (seen, reason, backfillable, outcome)

    def lose_interval(self, source: str, first: str, last: str, cluster_id: str = "c1") -> None:
        """Remove some minutes of one source, inside one hour."""
        interval = Interval(at(first), at(last))
        hour = hour_of(interval.started_at)
        expected = 120 if source == "thanos" else 3600
        lost = expected * interval.seconds // 3600
        self.missing[cluster_id, source, hour] = (expected - lost, "", True, "ok")
        self.missing_intervals.append((cluster_id, source, interval))

    def write(self) -> Home:
        home = self.home
        with connected(home.warehouse_path) as connection:
            connection.execute("create schema if not exists marts")
            rows = {
                "fct_coverage": list(self._coverage()),
                "fct_pod_hours": list(self._pod_hours()),
                "fct_outage_credits": list(self._credits()),
                "fct_charges": list(self._charges()),
                "fct_node_share_hours": list(self._node_share_hours()),
                "fct_node_hours": list(self._node_hours()),
                "fct_gpu_use": list(self._gpu_use()),
                "fct_metric_coverage": list(self._metric_coverage()),
                "dim_pod_labels": [
                    (self.period.name, pod.cluster_id, pod.uid, *label)
                    for pod in self.pods
                    for label in pod.labels
                ],
                "fct_sampled_pods": list(self._sampled_pods()),
                "fct_gaps": list(self._gaps()),
                "dim_budgets": [(self.period.name, "cluster", *one) for one in self.budgets],
                "dim_namespaces": list(self._namespaces()),
                "fct_contradictions": [
                    (self.period.name, "c1", "kubernetes", at(when), "pods", *rest)
                    for when, *rest in self.contradictions
                ],
                "fct_cluster_hours": list(self._cluster_hours()),
                "fct_refused_samples": [
                    (self.period.name, "c1", hour_of(at(first)), *what, at(first), at(last), *rest)
                    for *what, first, last, series, count, example in self.refused
                    for rest in [(series, count, example)]
                ],
            }
            for table, columns in TABLES.items():
                connection.execute(f"create table if not exists marts.{table} ({columns})")
                connection.execute(
                    f"delete from marts.{table} where billing_period = ?", [self.period.name]
                )
                kinds = _columns(columns)
                named = [dict(zip(kinds, row, strict=True)) for row in rows[table]]
                insert_rows(connection, f"marts.{table}", kinds, named)
            self._dbt_tests(connection)
        return home

    def _dbt_tests(self, connection: Any) -> None:
        """Passed results of the dbt tests for these facts."""
        names = (*ALWAYS, *(name for named in WITH_ROWS.values() for name in named))
        tests = [
            DbtTest(name.removeprefix("dbt_"), "pass", 0, 1, "by hand")
            for name in names
            if name.startswith("dbt_") and name not in self.dbt_tests_left_out
        ]
        facts_sha256 = period_sha256(connection, self.period.name)
        write_dbt_tests(connection, self.period.name, facts_sha256, tests)

    def _coverage(self) -> Iterator[tuple[Any, ...]]:
        for cluster in sorted(self.clusters):
            for source, expected in (("thanos", 120), ("kubernetes", 3600)):
                for hour in self.period.hours():
                    seen, reason, backfillable, outcome = self.missing.get(
                        (cluster, source, hour), (expected, "", True, "ok")
                    )
                    yield (
                        self.period.name, cluster, source, hour, expected, seen, expected - seen,
                        self.pods_missing.get((cluster, source, hour), 0), 0, outcome, reason,
                        backfillable,
                    )  # fmt: skip

    def _node_share_hours(self) -> Iterator[tuple[Any, ...]]:
        """One node with many cards per cluster: its pods run, the rest is idle."""
        running: defaultdict[tuple[str, datetime], int] = defaultdict(int)
        for pod, segment, _, _ in self._segments():
            units = int(SHARE_UNITS * pod.weight) * pod.device_count
            running[pod.cluster_id, hour_of(segment.started_at)] += segment.seconds * units
        installed = CARDS * SHARE_UNITS * 3600
        for (cluster, hour), used in sorted(running.items()):
            for dimension in ("compute", "memory"):
                yield (
                    self.period.name, cluster, "node-1", "A100-40", dimension, hour, SHARE_UNITS,
                    installed, used, 0, installed - used, 0, 0, 0, 0, 0,
                )  # fmt: skip

    def _node_hours(self) -> Iterator[tuple[Any, ...]]:
        """The node of each cluster in every hour, with the devices that its pods hold."""
        held: defaultdict[tuple[str, datetime], int] = defaultdict(int)
        for pod, segment, _, _ in self._segments():
            held[pod.cluster_id, hour_of(segment.started_at)] += pod.device_count
        for cluster in sorted(self.clusters):
            for hour in self.period.hours():
                count = held[cluster, hour]
                known = "by_devices" if count else "nothing"
                yield self.period.name, cluster, "node-1", hour, CARDS, count, count, known

    def _cluster_hours(self) -> Iterator[tuple[Any, ...]]:
        for period, cluster, _, hour, _, count, _, known in self._node_hours():
            yield period, cluster, hour, 1, 1, count, count, count, known

    def _gpu_use(self) -> Iterator[tuple[Any, ...]]:
        """Every hour of a pod, a quarter of it busy."""
        hours = {
            (pod.cluster_id, pod.tenant, pod.name, pod.uid, hour_of(segment.started_at))
            for pod, segment, _, _ in self._segments()
        }
        for cluster, tenant, name, uid, hour in sorted(hours):
            pod = (tenant, name, uid)
            use = (250_000, 900_000, False)
            rest = (name, "", "", 120, 3600, False, False)
            yield self.period.name, cluster, "node-1", *pod, hour, *use, *rest

    def _sampled_pods(self) -> Iterator[tuple[Any, ...]]:
        """Samples at both ends of every pod with samples."""
        for pod in sorted(self.pods, key=lambda pod: (pod.uid, pod.started_at)):
            if pod.method in ("confirmed", "samples_only", "disputed"):
                yield self.period.name, pod.cluster_id, pod.uid, pod.started_at, pod.ended_at

    def _gaps(self) -> Iterator[tuple[Any, ...]]:
        """The intervals from `lose_interval`; of other losses only the hour is known."""
        for cluster, source, interval in self.missing_intervals:
            yield self.period.name, cluster, source, interval.started_at, interval.ended_at

    def _namespaces(self) -> Iterator[tuple[Any, ...]]:
        began, ended = self.period.started_at, self.period.ended_at
        for name in sorted({pod.tenant for pod in self.pods}):
            again = at(self.made_again[name]) if name in self.made_again else ended
            lives = [("first", began, again - HOUR), ("second", again, ended)]
            for number, (uid, first, last) in enumerate(lives):
                if number == 0 or name in self.made_again:
                    gone = name in self.made_again and number == 0
                    yield self.period.name, "c1", name, f"{name}-{uid}", first, last, gone

    def _metric_coverage(self) -> Iterator[tuple[Any, ...]]:
        """Every metric is missing where samples are missing, except those in `metrics_left`.

        A metric in `metrics_lost` was expected all the time, and has no sample.
        """
        for cluster in sorted(self.clusters):
            for hour in self.period.hours():
                seen = self.missing.get((cluster, "thanos", hour), (120, "", True, "ok"))[0]
                for metric in self.metrics:
                    missing = 0 if metric in self.metrics_left else 120 - seen
                    yield self.period.name, cluster, metric, hour, 120, missing
                for metric in self.metrics_lost:
                    yield self.period.name, cluster, metric, hour, 120, 120

    def _in_outage(self, pod: Pod, segment: Interval) -> bool:
        return self._outage_start(pod.cluster_id, pod.uid, segment.started_at) is not None

    def _outage_start(self, cluster_id: str, pod_uid: str, at: datetime) -> datetime | None:
        """The start of the outage that credits a pod: of the cluster, its node or itself."""
        for scope in (("", ""), (NODE, ""), ("", pod_uid)):
            for outage in self.decisions.outage_intervals(cluster_id, self.period.interval, *scope):
                if outage.contains(at):
                    return outage.started_at
        return None

    def _credits(self) -> Iterator[tuple[Any, ...]]:
        """The cost of pod-hours in outages as credits, one row per charge and outage."""
        columns = list(_columns(TABLES["fct_pod_hours"]))
        sums: defaultdict[tuple[Any, ...], list[Any]] = defaultdict(list)
        for row in (dict(zip(columns, cells, strict=True)) for cells in self._pod_hours()):
            if row["is_outage"] and row["billable_seconds"]:
                key = tuple(row[name] for name in _CREDIT_KEY)
                uid, started_at = row["pod_uid"], row["segment_started_at"]
                sums[*key, self._outage_start(row["cluster_id"], uid, started_at)].append(row)
        for (*key, outage_started_at), rows in sorted(sums.items(), key=str):
            yield (
                self.period.name, *key, "EUR" if key[-1] else "", outage_started_at,
                min(row["segment_started_at"] for row in rows),
                max(row["segment_ended_at"] for row in rows),
                sum(row["billable_seconds"] * row["device_count"] for row in rows),
                -sum(row["cost_nanos"] for row in rows),
            )  # fmt: skip

    def _segments(self) -> Iterator[tuple[Pod, Interval, str, int]]:
        for pod in self.pods:
            inside = Interval(pod.started_at, pod.ended_at).clipped_to(self.period.interval)
            dated = (*self.decisions.rates, *self.decisions.outages)
            edges = [edge for row in dated for edge in row.validity.edges()]
            for piece in inside.split_at_hours() if inside else []:
                for segment in piece.split_at(edges):
                    rate = self.decisions.price_list.find(
                        pod.cluster_id, pod.gpu_class, pod.mig_profile, segment.started_at
                    )
                    yield (
                        pod,
                        segment,
                        rate.rate_id if rate else "",
                        (rate.rate_nanos_per_hour if rate else 0),
                    )

    def _sums(self) -> dict[tuple[Any, ...], int]:
        sums: defaultdict[tuple[Any, ...], int] = defaultdict(int)
        for pod, segment, rate_id, rate in self._segments():
            if pod.method not in ("disputed", "missing"):
                sums[_key(pod, rate_id, rate)] += segment.seconds * pod.device_count
        return sums

    def _charges(self) -> Iterator[tuple[Any, ...]]:
        for key, seconds in sorted(self._sums().items(), key=str):
            tenant, belongs_to, cluster, gpu_class, profile, weight, rate_id, rate = key
            yield (
                self.period.name, tenant, belongs_to, cluster, gpu_class, profile,
                weight.numerator, weight.denominator, "mig_weight max default-1", rate_id, rate,
                "EUR" if rate_id else "", *self._charged(rate_id), seconds,
                round(Fraction(seconds * rate, 3600) * weight),
            )  # fmt: skip

    def _charged(self, rate_id: str) -> tuple[datetime, datetime]:
        for rate in self.decisions.rates:
            if rate.rate_id == rate_id:
                clipped = rate.validity.clipped_to(self.period.interval)
                assert clipped
                return clipped.started_at, clipped.ended_at
        return self.period.started_at, self.period.ended_at

    def _pod_hours(self) -> Iterator[tuple[Any, ...]]:
        so_far: defaultdict[tuple[Any, ...], int] = defaultdict(int)
        for pod, segment, rate_id, rate in self._segments():
            billed = pod.method not in ("disputed", "missing")
            key = _key(pod, rate_id, rate)
            price = Fraction(rate, 3600) * pod.weight
            before = round(so_far[key] * price)
            so_far[key] += segment.seconds * pod.device_count if billed else 0
            share = (pod.weight.numerator, pod.weight.denominator)
            yield (
                self.period.name, pod.cluster_id, hour_of(segment.started_at), pod.tenant,
                pod.belongs_to, pod.tenant, pod.uid, pod.name, "Job", pod.workload or pod.name,
                NODE, "nvidia.com/gpu", pod.device_count, pod.gpu_class, pod.mig_profile,
                segment.started_at, segment.ended_at, "running",
                pod.method, pod.method_reason, pod.treatment, segment.seconds, 0,
                segment.seconds if billed else 0, *share, *share, *share,
                "mig_weight max default-1", rate_id, pod.uncertainty_seconds,
                round(so_far[key] * price) - before, self._in_outage(pod, segment),
            )  # fmt: skip


NODE = "node-1"
_CREDIT_KEY = (
    "tenant", "belongs_to", "cluster_id", "gpu_class", "mig_profile", "weight_numerator",
    "weight_denominator", "weight_policy", "rate_id",
)  # fmt: skip


def _columns(spelled: str) -> dict[str, str]:
    pairs = [part.split(maxsplit=1) for part in re.split(r",(?![^(]*\))", spelled)]
    return {name: kind.strip().replace(" ", "") for name, kind in pairs}


def _key(pod: Pod, rate_id: str, rate: int) -> tuple[Any, ...]:
    return (
        pod.tenant, pod.belongs_to, pod.cluster_id, pod.gpu_class, pod.mig_profile, pod.weight,
        rate_id, rate,
    )  # fmt: skip
