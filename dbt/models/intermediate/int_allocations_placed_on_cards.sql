with

allocations as (

    select *
    from {{ ref('int_allocations_classified') }}
    where device_kind = 'mig' and claim_uid = ''

),

telemetry as (

    select distinct
        cluster_id,
        node_name,
        gpu_index,
        instance_id,
        instance_profile,
        namespace,
        pod_name
    from {{ ref('int_device_telemetry') }}
    where instance_id <> '' and pod_name <> ''

),

-- Exporters know pods by name: one that two lives had says nothing of either.
named as (

    select
        cluster_id,
        namespace,
        pod_name
    from allocations
    group by cluster_id, namespace, pod_name
    having count(distinct pod_number) = 1

),

-- What a pod holds does not change while it lives, so one hour that names it is enough.
placed as (

    select
        allocations.allocation_number,
        allocations.device_count,
        telemetry.gpu_index,
        count(*) as instance_count
    from allocations
    inner join named
        on
            allocations.cluster_id = named.cluster_id
            and allocations.namespace = named.namespace
            and allocations.pod_name = named.pod_name
    inner join telemetry
        on
            allocations.cluster_id = telemetry.cluster_id
            and allocations.node_name = telemetry.node_name
            and allocations.namespace = telemetry.namespace
            and allocations.pod_name = telemetry.pod_name
            and allocations.mig_profile = telemetry.instance_profile
    group by allocations.allocation_number, allocations.device_count, telemetry.gpu_index

),

complete as (

    select allocation_number
    from placed
    group by allocation_number, device_count
    having sum(instance_count) = device_count

)

select
    placed.allocation_number,
    placed.gpu_index,
    cast(placed.instance_count as bigint) as instance_count
from placed
inner join complete
    on placed.allocation_number = complete.allocation_number
