-- Cards and MIG instances at an instant, each with its holder if telemetry or a claim names one.
with

names as (

    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters
    group by all

),

nodes as (

    select
        cluster_id,
        node_name,
        max(labelled_gpu_class) as gpu_class
    from dim_nodes
    where
        valid_from <= $at
        and valid_until > $at
    group by all

),

running_pods as (

    select distinct
        cluster_id,
        pod_uid,
        node_name,
        resource,
        tenant || '/' || pod_name as held_by
    from fct_pod_hours
    where
        hour_started_at = $hour
        and segment_started_at <= $at
        and segment_ended_at > $at
        and state = 'running'

),

holders as (

    select
        uses.cluster_id,
        uses.node_name,
        uses.device_uuid,
        uses.gpu_index,
        uses.instance_id,
        string_agg(distinct running_pods.held_by, ' ' order by running_pods.held_by) as held_by
    from fct_gpu_use as uses
    inner join running_pods
        on
            uses.cluster_id = running_pods.cluster_id
            and uses.pod_uid = running_pods.pod_uid
    where uses.hour_started_at = $hour
    group by all

),

claimants as (

    select
        cluster_id,
        node_name,
        resource,
        string_agg(distinct held_by, ' ' order by held_by) as held_by
    from running_pods
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
inner join names
    on devices.cluster_id = names.cluster_id
left join nodes
    on
        devices.cluster_id = nodes.cluster_id
        and devices.node_name = nodes.node_name
left join holders
    on
        devices.cluster_id = holders.cluster_id
        and devices.node_name = holders.node_name
        and devices.device_uuid = holders.device_uuid
        and devices.gpu_index = holders.gpu_index
        and devices.instance_id = holders.instance_id
left join claimants
    on
        devices.cluster_id = claimants.cluster_id
        and devices.node_name = claimants.node_name
        and devices.device_name = claimants.resource
        and devices.device_name <> ''
where
    devices.billing_period = $period
    and devices.first_seen_at <= $at
    and devices.last_seen_at > $at
order by
    names.cluster_name,
    devices.node_name,
    devices.gpu_index,
    devices.device_name,
    try_cast(devices.instance_id as integer),
    devices.instance_id,
    devices.mig_profile
