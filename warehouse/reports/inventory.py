"""The inventory at an instant: what capacity there is, which devices, since when, held by whom.

Put here: capacity per node and profile, and every card and MIG instance with its holder.
Not here: how devices are known (`dim_devices`), or how they are counted (`dbt/`).

The Kubernetes API says how many devices a pod holds; only telemetry says which ones. So a device's
holder is named where telemetry of that hour attributes it to a pod that ran at the instant, or a
claim gives it to one, and `holder_known_by` says so; elsewhere devices are rows with a number.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from domain.billing_period import BillingPeriod
from domain.interval import Interval, hour_of
from warehouse.reports.source import Facts, Row

CAPACITY_COLUMNS = (
    "cluster_name",
    "node_name",
    "gpu_class",
    "mig_profile",
    "device_capacity",
    "device_allocatable",
    "device_allocated",
    "holders",
)
DEVICE_COLUMNS = (
    "cluster_name",
    "node_name",
    "gpu_index",
    "instance_id",
    "device_uuid",
    "device_name",
    "gpu_class",
    "mig_profile",
    "device_count",
    "seen_since",
    "held_by",
    "holder_known_by",
    "how_known",
)

SECOND = timedelta(seconds=1)

_NAMES = "select cluster_id, max(cluster_name) as cluster_name from dim_clusters group by all"

_CAPACITY = f"""
    with names as ({_NAMES}),

    -- One allocation may have several pieces; an instant lies in one of them.
    held as (
        select
            cluster_id,
            node_name,
            gpu_class,
            mig_profile,
            sum(device_count) as device_allocated,
            list(tenant || '/' || pod_name order by tenant, pod_name) as holders
        from fct_pod_hours
        where hour_started_at = $hour and segment_started_at <= $at and segment_ended_at > $at
            and running_seconds + held_seconds > 0
        group by all
    )

    select
        names.cluster_name,
        hours.node_name,
        hours.gpu_class,
        hours.mig_profile,
        hours.device_capacity,
        hours.device_allocatable,
        cast(coalesce(held.device_allocated, 0) as bigint) as device_allocated,
        coalesce(held.holders, []) as holders
    from fct_node_class_hours as hours
    inner join names on hours.cluster_id = names.cluster_id
    left join held
        on hours.cluster_id = held.cluster_id
        and hours.node_name = held.node_name
        and hours.gpu_class = held.gpu_class
        and hours.mig_profile = held.mig_profile
    where hours.hour_started_at = $hour
        and (hours.device_capacity > 0 or held.device_allocated is not null)
    order by all
"""

_DEVICES = f"""
    with names as ({_NAMES}),

    nodes as (
        select cluster_id, node_name, max(labelled_gpu_class) as gpu_class
        from dim_nodes
        where valid_from <= $at and valid_until > $at
        group by all
    ),

    running as (
        select distinct cluster_id, pod_uid, node_name, resource,
            tenant || '/' || pod_name as held_by
        from fct_pod_hours
        where hour_started_at = $hour and segment_started_at <= $at and segment_ended_at > $at
            and state = 'running'
    ),

    holders as (
        select
            uses.cluster_id,
            uses.node_name,
            uses.device_uuid,
            uses.gpu_index,
            uses.instance_id,
            string_agg(distinct running.held_by, ' ' order by running.held_by) as held_by
        from fct_gpu_use as uses
        inner join running
            on uses.cluster_id = running.cluster_id and uses.pod_uid = running.pod_uid
        where uses.hour_started_at = $hour
        group by all
    ),

    claimants as (
        select cluster_id, node_name, resource,
            string_agg(distinct held_by, ' ' order by held_by) as held_by
        from running
        group by all
    )

    select
        names.cluster_name,
        devices.node_name,
        devices.gpu_index,
        devices.instance_id,
        devices.device_uuid,
        devices.device_name,
        coalesce(nullif(devices.gpu_class, ''), nodes.gpu_class, '') as gpu_class,
        devices.mig_profile,
        devices.device_count,
        devices.first_seen_at as seen_since,
        coalesce(holders.held_by, claimants.held_by, '') as held_by,
        case
            when holders.held_by is not null then 'telemetry'
            when claimants.held_by is not null then 'claim'
            when devices.device_uuid = '' and devices.device_name = '' then 'not known by device'
            else ''
        end as holder_known_by,
        devices.how_known
    from dim_devices as devices
    inner join names on devices.cluster_id = names.cluster_id
    left join nodes
        on devices.cluster_id = nodes.cluster_id and devices.node_name = nodes.node_name
    left join holders
        on devices.cluster_id = holders.cluster_id
        and devices.node_name = holders.node_name
        and devices.device_uuid = holders.device_uuid
        and devices.gpu_index = holders.gpu_index
        and devices.instance_id = holders.instance_id
    left join claimants
        on devices.cluster_id = claimants.cluster_id
        and devices.node_name = claimants.node_name
        and devices.device_name = claimants.resource
        and devices.device_name <> ''
    where devices.billing_period = $period
        and devices.first_seen_at <= $at and devices.last_seen_at > $at
    order by
        names.cluster_name, devices.node_name, devices.gpu_index, devices.device_name,
        try_cast(devices.instance_id as integer), devices.instance_id, devices.mig_profile
"""


def capacity(facts: Facts, at: datetime) -> list[Row]:
    """One row per node, class and profile: what there is, may be used, is held, and by whom."""
    facts.require(Interval(at, at + SECOND))
    return facts.rows(_CAPACITY, {"at": at, "hour": hour_of(at)})


def devices(facts: Facts, at: datetime) -> list[Row]:
    """One row per card or MIG instance that was there; with a number where they have no names."""
    period = BillingPeriod.containing(at).name
    facts.require(Interval(at, at + SECOND))
    return facts.rows(_DEVICES, {"at": at, "hour": hour_of(at), "period": period})


def last_counted_hour(facts: Facts) -> datetime | None:
    """The start of the newest hour that any node was counted for."""
    [row] = facts.rows("select max(hour_started_at) as newest from fct_node_hours")
    newest = row["newest"]
    return newest if isinstance(newest, datetime) else None
