"""A month of a large fleet as decoded evidence, and as samples.

Put here: pods on cards one after another, and their rows in both sources, made in SQL.
Not here: calculating facts (the models), or measuring (`bench_facts`, `bench_promql`).

All values follow from slot numbers, so every run has the same rows. One node in seven has MIG
instances. A pod runs 5.6 hours on average, as in the fleet of the goals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from domain.billing_period import BillingPeriod
from domain.decisions import Decisions, load_decisions
from warehouse.connection import connected
from warehouse.device_tables import create_device_kinds
from warehouse.raw_decisions import create_raw_decisions
from warehouse.raw_schema import PARQUET_TABLES, create_table, create_view_of_files

PERIOD = BillingPeriod("2026-10")
START = int(PERIOD.started_at.timestamp())
DAYS = 31
CARDS = 8
PRODUCT, WHOLE = "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu"
SLICE, SLICES = "nvidia.com/mig-3g.20gb", 16  # two on each card
MIG_EVERY = 7
POD_SECONDS = 5.6 * 3600
TENANTS = 97
TELEMETRY = {
    f"DCGM_FI_{name}": reading
    for name, reading in (
        ("DEV_SM_CLOCK", ""),
        ("DEV_MEM_CLOCK", ""),
        ("DEV_MEMORY_TEMP", ""),
        ("DEV_GPU_TEMP", "temperature"),
        ("DEV_POWER_USAGE", "power"),
        ("DEV_TOTAL_ENERGY_CONSUMPTION", ""),
        ("DEV_PCIE_REPLAY_COUNTER", ""),
        ("DEV_GPU_UTIL", "card_use"),
        ("DEV_MEM_COPY_UTIL", "memory_traffic"),
        ("DEV_ENC_UTIL", ""),
        ("DEV_DEC_UTIL", ""),
        ("DEV_XID_ERRORS", ""),
        ("DEV_FB_FREE", ""),
        ("DEV_FB_USED", "memory_used"),
        ("DEV_FB_RESERVED", ""),
        ("DEV_UNCORRECTABLE_REMAPPED_ROWS", ""),
        ("DEV_CORRECTABLE_REMAPPED_ROWS", ""),
        ("DEV_ROW_REMAP_FAILURE", ""),
        ("DEV_NVLINK_BANDWIDTH_TOTAL", ""),
        ("DEV_VGPU_LICENSE_STATUS", ""),
        ("PROF_GR_ENGINE_ACTIVE", "use"),
        ("PROF_PIPE_TENSOR_ACTIVE", "tensor_active"),
        ("PROF_DRAM_ACTIVE", "dram_active"),
        ("PROF_PCIE_TX_BYTES", ""),
        ("PROF_PCIE_RX_BYTES", ""),
    )
}
"""The metrics that dcgm-exporter exports by default, with the catalogue's reading of each."""
CLUSTER_ID = "6f1c1f0a-0b5e-4d7c-9d3a-0c9b6a3e2f11"


@dataclass(frozen=True, slots=True)
class Month:
    """Size of the fleet, sampling interval and end of the samples."""

    nodes: int
    step: int = 300
    days: int = DAYS
    pod_seconds: int = int(POD_SECONDS)
    """The mean time that a pod runs."""
    mig_every: int = MIG_EVERY
    """One node of this many has MIG instances; with 0 none has."""
    tenants: int = TENANTS
    telemetry: bool = False
    """Whether every whole card has the metrics of `TELEMETRY`."""

    @property
    def gpus(self) -> int:
        return self.nodes * CARDS

    @property
    def ended(self) -> int:
        return START + self.days * 86_400


def fill(folder: Path, database: Path, month: Month) -> Decisions:
    """The raw schema of a build, over Parquet files like those of a pull and a journal."""
    folder.mkdir(parents=True)
    decided = decisions(month)
    with connected(database) as connection:
        connection.execute("create schema raw")
        create_lives(connection, month)
        filled = evidence(month)
        for table in PARQUET_TABLES:
            path = folder / f"{table}.parquet"
            if table in filled:
                _write(connection, table, filled[table], path)
            create_view_of_files(connection, table, [str(path)] if table in filled else [])
        create_table(connection, "attempts")
        connection.execute(_attempts(month))
        create_device_kinds(connection, decided, PERIOD.interval)
        create_raw_decisions(connection, PERIOD, decided, frozenset())
        for table in ("lives", "slots"):
            connection.execute(f"drop table {table}")
    return decided


def evidence(
    month: Month, attempt_ids: Mapping[str, Sequence[str]] | None = None
) -> dict[str, str]:
    """The rows of each derived table, as SQL; `attempt_ids` of each source, by day."""
    ids = attempt_ids or {
        source: [f"{source}-{day}" for day in range(month.days)]
        for source in ("thanos", "kubernetes")
    }
    return {**_samples(month, ids["thanos"]), **_journal(month, ids["kubernetes"])}


def decisions(month: Month) -> Decisions:
    return load_decisions(decision_tables(month))


def decision_tables(month: Month) -> dict[str, str]:
    """The sources of the cluster, and one price."""
    signed = "agreed,Ada,2026-09-15"
    until = PERIOD.ended_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    clusters = (
        "cluster_id,cluster_name,valid_from,valid_until,sources,sample_interval_seconds,"
        "scrape_interval_seconds,reason,decided_by,decided_on\n"
        f"{CLUSTER_ID},large,2026-10-01T00:00:00Z,{until},both,{month.step},30,{signed}\n"
    )
    rates = (
        "cluster_id,gpu_class,mig_profile,currency,rate_per_hour,valid_from,valid_until,reason,"
        "decided_by,decided_on,second_name\n"
        f",A100-40GB,whole,EUR,1.80,2026-01-01,,{signed},\n"
    )
    return {"clusters.csv": clusters, "rates.csv": rates}


def create_lives(connection: duckdb.DuckDBPyConnection, month: Month) -> None:
    """Create `slots`, one per card or instance, and `lives`, one per pod in its slot."""
    is_cut = f"node % {month.mig_every} = 0" if month.mig_every else "false"
    connection.execute(
        f"""
        create table slots as
        select
            node, row_number() over (order by node, slot) as slot_number,
            case when {is_cut} then '{SLICE}' else '{WHOLE}' end as resource
        from range({month.nodes}) as nodes (node)
        cross join lateral range(
            case when {is_cut} then {SLICES} else {CARDS} end
        ) as each_slot (slot)
        """
    )
    most = int(DAYS * 86_400 / month.pod_seconds * 3) + 2
    connection.execute(
        f"""
        create table lives as
        with drawn as (
            select
                slot_number, node, resource, turn,
                300 + hash(slot_number, turn, 1) % {2 * month.pod_seconds - 600} as seconds,
                30 + hash(slot_number, turn, 2) % 3600 as pause_seconds
            from slots cross join range({most}) as turns (turn)
        ),

        placed as (
            select
                *,
                {START} - hash(slot_number) % 20000 + sum(seconds + pause_seconds) over (
                    partition by slot_number order by turn
                ) - seconds as started
            from drawn
        )

        select
            row_number() over (order by slot_number, turn) as pod,
            format('{{:08x}}-0000-4000-8000-{{:012x}}', hash(slot_number, turn, 3) >> 32,
                row_number() over (order by slot_number, turn)) as uid,
            format('train-{{}}-{{:x}}', slot_number % 300, hash(slot_number, turn, 4) >> 24)
                as name,
            format('team-{{}}', slot_number % {month.tenants}) as namespace,
            format('workload-{{}}', slot_number % 300) as workload,
            format('gpu-{{}}', node) as node,
            slot_number,
            resource,
            cast(greatest(started, {START}) as bigint) as started,
            cast(started + seconds as bigint) as ended
        from placed
        where started < {month.ended} and started + seconds > {START}
        """
    )


def expected_seconds(month: Month) -> int:
    """GPU-seconds of all pods without weights, from the definition of the month alone."""
    with connected(":memory:") as connection:
        create_lives(connection, month)
        row = connection.execute(
            f"select sum(least(ended, {month.ended}) - started) from lives"
        ).fetchone()
    assert row
    return int(row[0])


def write_samples(connection: duckdb.DuckDBPyConnection, month: Month, path: Path) -> int:
    """Write the samples of the requests as (series, instant, value); intervals replace these."""
    connection.execute(
        f"""
        copy (
            select pod as series, sampled as sampled_at, 1 as devices
            from lives, lateral range(
                cast(ceil(started / {month.step}) as bigint) * {month.step}, ended, {month.step}
            ) as samples (sampled)
            where sampled < {month.ended}
        ) to '{path}' (format parquet, compression zstd)
        """
    )
    row = connection.execute(f"select count(*) from '{path}'").fetchone()
    return int(row[0]) if row else 0


def _write(connection: duckdb.DuckDBPyConnection, table: str, statement: str, path: Path) -> None:
    columns = ", ".join(
        f"cast({name} as {kind}) as {name}" for name, kind in PARQUET_TABLES[table].items()
    )
    connection.execute(
        f"copy (select {columns} from ({statement})) to '{path}' (format parquet, compression zstd)"
    )


# --- samples source -------------------------------------------------------------------------------


def _hours(month: Month) -> str:
    return f"range({START}, {month.ended}, 3600) as each_hour (moment)"


def _attempt(ids: Sequence[str]) -> str:
    return f"({list(ids)})[(moment - {START}) // 86400 + 1]"


def _samples(month: Month, attempt_ids: Sequence[str]) -> Mapping[str, str]:
    step = month.step
    shared = f"'{CLUSTER_ID}' as cluster_id, {_attempt(attempt_ids)} as attempt_id"
    pods = f"""
        select
            moment, pod, lives.*, each_metric.metric, place,
            cast(ceil(greatest(started, moment) / {step}) as bigint) * {step} as first_at,
            (least(ended, moment + 3600) - 1) // {step} * {step} as last_at,
            case metric when 'kube_pod_container_state_started' then cast(started as varchar)
                else '1' end as said
        from lives, {_hours(month)}, (
            values ('kube_pod_container_resource_requests', 1), ('kube_pod_status_phase', 2),
                ('kube_pod_container_state_started', 3)
        ) as each_metric (metric, place)
        where started < moment + 3600 and moment < ended
    """
    nodes = f"""
        select
            moment, node, resource, metric, place, devices,
            moment as first_at, (moment + 3599) // {step} * {step} as last_at,
            case when place < 3 then cast(devices as varchar) else '1' end as said
        from (select node, resource, count(*) as devices from slots group by all), {_hours(month)},
        (
            values ('kube_node_status_capacity', 1), ('kube_node_status_allocatable', 2),
                ('kube_node_labels', 3), ('kube_node_info', 4), ('up', 5)
        ) as each_metric (metric, place)
    """
    day = f"(moment - {START}) // 86400 * {1 << 32}"
    pod_key, node_key = f"{day} + pod * 4 + place", f"{day} + {1 << 31} + node * 8 + place"
    run = f"""
        to_timestamp(moment) as hour_started_at, metric,
        (first_at - moment) * 1000 as first_offset_ms, (last_at - moment) * 1000 as last_offset_ms,
        (last_at - first_at) // {step} + 1 as sample_count, said as sample_value
    """
    metrics = ", ".join(f"('{name}', '{reading}', {place})"
                        for place, (name, reading) in enumerate(TELEMETRY.items()))  # fmt: skip
    devices = f"""
        select
            moment, pod, lives.*, each_metric.*, (slot_number - 1) % {CARDS} as card,
            hash(pod, moment, place) % 100 / 100 as reading_value
        from lives, {_hours(month)}, (values {metrics}) as each_metric (metric, reading, place)
        where started < moment + 3600 and moment < ended and resource = '{WHOLE}'
    """
    device_key = f"{day} + {3 << 30} + pod * {len(TELEMETRY)} + place"
    device_series = f"""
        select distinct {shared}, {device_key} as series_key, metric, null as uid,
            'nvidia-dcgm-exporter-' || node as pod,
            map {{'Hostname': node, 'UUID': format('GPU-{{}}-{{}}', node, card),
                'gpu': cast(card as varchar), 'modelName': 'NVIDIA A100-SXM4-40GB',
                'exported_namespace': namespace, 'exported_pod': name,
                'exported_container': 'main', 'namespace': 'nvidia-gpu-operator'}} as labels
        from ({devices})
    """
    device_hours = f"""
        select {shared}, to_timestamp(moment) as hour_started_at, metric,
            {device_key} as series_key, reading, 3600 // {step} as sample_count,
            reading_value as average_value, reading_value as maximum_value
        from ({devices})
    """
    return {
        "thanos_runs": f"""
            select {shared}, {pod_key} as series_key, {run} from ({pods}) where first_at <= last_at
            union all select {shared}, {node_key} as series_key, {run} from ({nodes})
        """,
        "thanos_series": f"""
            select distinct {shared}, {pod_key} as series_key, metric, uid, name as pod,
                case place when 1 then map {{'namespace': namespace, 'container': 'main',
                        'node': node, 'resource': {_mangled("resource")}, 'unit': 'integer'}}
                    when 2 then map {{'namespace': namespace, 'phase': 'Running'}}
                    else map {{'namespace': namespace, 'container': 'main'}} end as labels
            from ({pods}) where first_at <= last_at
            union all
            select distinct {shared}, {node_key} as series_key, metric, null as uid, null as pod,
                case when place < 3 then map {{'node': format('gpu-{{}}', node),
                        'resource': {_mangled("resource")}, 'unit': 'integer'}}
                    when place = 3 then {_labels("label_nvidia_com_gpu_{}")}
                    when place = 4 then map {{'node': format('gpu-{{}}', node)}}
                    else map {{'job': 'kubelet', 'instance': format('gpu-{{}}', node)}} end
                    as labels
            from ({nodes})
            {f"union all {device_series}" if month.telemetry else ""}
        """,
        **({"thanos_telemetry": device_hours} if month.telemetry else {}),
    }


def _mangled(column: str) -> str:
    return f"regexp_replace({column}, '[^a-zA-Z0-9_]', '_', 'g')"


def _labels(name: str) -> str:
    return (
        f"map {{'{name.format('product')}': '{PRODUCT}', '{name.format('count')}': '{CARDS}',"
        f" '{name.format('present')}': 'true', 'node': format('gpu-{{}}', node)}}"
    )


def _attempts(month: Month) -> str:
    return f"""
        insert into raw.attempts by name
        select
            '{CLUSTER_ID}' as cluster_id, source, format('{{}}-{{}}', source, day) as attempt_id,
            day + 1 as sequence, to_timestamp(moment) as hour_started_at,
            to_timestamp({START} + (day + 1) * 86400 + 60) as asked_at,
            to_timestamp({START} + (day + 1) * 86400 + 61) as answered_at, 'ok' as outcome,
            '' as reason, 1 as series_count, 1 as sample_count, 0 as warning_count,
            cast([] as varchar[]) as answer_sha256s, {month.step} as sample_interval_seconds,
            30 as scrape_interval_seconds
        from (select moment, (moment - {START}) // 86400 as day from {_hours(month)}),
            (values ('thanos'), ('kubernetes')) as sources (source)
    """


# --- lifecycle source -----------------------------------------------------------------------------


def _journal(month: Month, attempt_ids: Sequence[str]) -> Mapping[str, str]:
    shared = f"'{CLUSTER_ID}' as cluster_id, {_attempt(attempt_ids)} as attempt_id"
    seen = f"""
        select pod, started as moment, 'added' as via from lives
        union all select pod, ended, 'deleted' from lives where ended < {month.ended}
        union all
        select pod, moment, 'hourly_list' from lives, {_hours(month)}
        where started <= moment and moment < ended
    """
    nodes = f"(select distinct node from slots), {_hours(month)}"
    return {
        "kubernetes_pod_observations": f"""
            select
                {shared}, to_timestamp(moment) as observed_at, moment * 10 as journal_position,
                via,
                uid as pod_uid, namespace, 'ns-' || namespace as namespace_uid, name as pod_name,
                node as node_name, case when via = 'deleted' then 'Succeeded' else 'Running' end
                    as phase,
                to_timestamp(started) as bound_at, to_timestamp(started) as started_at,
                case when via = 'deleted' then to_timestamp(ended) end as ended_at,
                via = 'deleted' as deleted, null as deletion_deadline_at, 0 as restart_count,
                'Job' as owner_kind, workload as owner_name, 'Job' as workload_kind,
                workload as workload_name, '' as reason,
                cast(map {{}} as map(varchar, varchar)) as labels
            from ({seen}) inner join lives using (pod)
        """,
        "kubernetes_pod_requests": f"""
            select distinct {shared}, uid as pod_uid, resource, 1 as device_count
            from ({seen}) inner join lives using (pod)
        """,
        "kubernetes_node_observations": f"""
            select
                {shared}, to_timestamp(moment) as observed_at, moment * 10 as journal_position,
                'hourly_list' as via, format('uid-{{}}', node) as node_uid,
                format('gpu-{{}}', node) as node_name, true as ready, false as unschedulable,
                ['worker'] as roles, {_labels("nvidia.com/gpu.{}")} as labels, false as deleted
            from {nodes}
        """,
        "kubernetes_node_resources": f"""
            select
                {shared}, format('uid-{{}}', node) as node_uid,
                format('gpu-{{}}', node) as node_name, to_timestamp(moment) as observed_at,
                resource,
                devices as capacity, devices as allocatable
            from (select node, resource, count(*) as devices from slots group by all),
                {_hours(month)}
        """,
        "kubernetes_coverage": f"""
            select {shared}, to_timestamp(moment) as hour_started_at,
                to_timestamp(moment) as watched_from, to_timestamp(moment + 3600) as watched_until,
                true as list_complete
            from {_hours(month)}
        """,
    }
