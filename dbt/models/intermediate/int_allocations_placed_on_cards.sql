with

allocations as (

    select *
    from {{ ref('int_allocations') }}
    where device_kind = 'mig' and claim_uid = ''

),

-- An exporter may show a pod for some minutes after its end.
lifetimes as (

    select
        allocation_number,
        min(started_second) as started_second,
        max(ended_second) + 300 as shown_until_second
    from {{ ref('int_device_use') }}
    group by allocation_number

),

named as (

    select
        allocations.allocation_number,
        allocations.cluster_id,
        allocations.pod_uid,
        allocations.node_name,
        allocations.namespace,
        allocations.pod_name,
        allocations.mig_profile,
        allocations.device_count,
        {{ each_hour('lifetimes.started_second', 'lifetimes.shown_until_second') }} as hour_second
    from allocations
    inner join lifetimes
        on allocations.allocation_number = lifetimes.allocation_number

),

-- Exporters know pods by name: in an hour in which two pods of a node had one, it says nothing.
alone as (

    select
        cluster_id,
        node_name,
        namespace,
        pod_name,
        hour_second
    from named
    group by cluster_id, node_name, namespace, pod_name, hour_second
    having count(distinct pod_uid) = 1

),

telemetry as (

    select distinct
        cluster_id,
        node_name,
        gpu_index,
        instance_id,
        instance_profile,
        namespace,
        pod_name,
        hour_second
    from {{ ref('int_device_telemetry') }}
    where instance_id <> '' and pod_name <> ''

),

shown as (

    select
        named.allocation_number,
        named.device_count,
        named.hour_second,
        telemetry.gpu_index,
        count(*) as instance_count
    from named
    inner join alone
        on
            named.cluster_id = alone.cluster_id
            and named.node_name = alone.node_name
            and named.namespace = alone.namespace
            and named.pod_name = alone.pod_name
            and named.hour_second = alone.hour_second
    inner join telemetry
        on
            named.cluster_id = telemetry.cluster_id
            and named.node_name = telemetry.node_name
            and named.namespace = telemetry.namespace
            and named.pod_name = telemetry.pod_name
            and named.mig_profile = telemetry.instance_profile
            and named.hour_second = telemetry.hour_second
    group by
        named.allocation_number, named.device_count, named.hour_second, telemetry.gpu_index

),

complete_hours as (

    select
        allocation_number,
        hour_second
    from shown
    group by allocation_number, hour_second, device_count
    having sum(instance_count) = device_count

),

placed as (

    select
        shown.allocation_number,
        shown.gpu_index,
        count(*) as hour_count,
        min(shown.instance_count) as instance_count,
        max(shown.instance_count) as most_instances
    from shown
    inner join complete_hours
        on
            shown.allocation_number = complete_hours.allocation_number
            and shown.hour_second = complete_hours.hour_second
    group by shown.allocation_number, shown.gpu_index

),

-- The devices of a pod never change: one hour is enough, and none may contradict it.
consistent as (

    select placed.allocation_number
    from placed
    inner join (
        select
            allocation_number,
            count(*) as hour_count
        from complete_hours
        group by allocation_number
    ) as complete
        on placed.allocation_number = complete.allocation_number
    group by placed.allocation_number
    having bool_and(
        placed.hour_count = complete.hour_count and placed.instance_count = placed.most_instances
    )

)

select
    placed.allocation_number,
    placed.gpu_index,
    cast(placed.instance_count as bigint) as instance_count
from placed
inner join consistent
    on placed.allocation_number = consistent.allocation_number
