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

allocation_hours as (

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

-- Exporters identify pods by name. If two pods of a node had one name in an hour, the name
-- identifies neither of them.
unique_names as (

    select
        cluster_id,
        node_name,
        namespace,
        pod_name,
        hour_second
    from allocation_hours
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

shown_cards as (

    select
        allocation_hours.allocation_number,
        allocation_hours.device_count,
        allocation_hours.hour_second,
        telemetry.gpu_index,
        count(*) as instance_count
    from allocation_hours
    inner join unique_names
        on
            allocation_hours.cluster_id = unique_names.cluster_id
            and allocation_hours.node_name = unique_names.node_name
            and allocation_hours.namespace = unique_names.namespace
            and allocation_hours.pod_name = unique_names.pod_name
            and allocation_hours.hour_second = unique_names.hour_second
    inner join telemetry
        on
            allocation_hours.cluster_id = telemetry.cluster_id
            and allocation_hours.node_name = telemetry.node_name
            and allocation_hours.namespace = telemetry.namespace
            and allocation_hours.pod_name = telemetry.pod_name
            and allocation_hours.mig_profile = telemetry.instance_profile
            and allocation_hours.hour_second = telemetry.hour_second
    group by
        allocation_hours.allocation_number,
        allocation_hours.device_count,
        allocation_hours.hour_second,
        telemetry.gpu_index

),

complete_hours as (

    select
        allocation_number,
        hour_second
    from shown_cards
    group by allocation_number, hour_second, device_count
    having sum(instance_count) = device_count

),

card_placements as (

    select
        shown_cards.allocation_number,
        shown_cards.gpu_index,
        count(*) as hour_count,
        min(shown_cards.instance_count) as instance_count,
        max(shown_cards.instance_count) as most_instances
    from shown_cards
    inner join complete_hours
        on
            shown_cards.allocation_number = complete_hours.allocation_number
            and shown_cards.hour_second = complete_hours.hour_second
    group by shown_cards.allocation_number, shown_cards.gpu_index

),

-- The devices of a pod never change: one complete hour shows its cards, and no other hour may show
-- other ones.
consistent_allocations as (

    select card_placements.allocation_number
    from card_placements
    inner join (
        select
            allocation_number,
            count(*) as hour_count
        from complete_hours
        group by allocation_number
    ) as complete
        on card_placements.allocation_number = complete.allocation_number
    group by card_placements.allocation_number
    having bool_and(
        card_placements.hour_count = complete.hour_count
        and card_placements.instance_count = card_placements.most_instances
    )

)

select
    card_placements.allocation_number,
    card_placements.gpu_index,
    cast(card_placements.instance_count as bigint) as instance_count
from card_placements
inner join consistent_allocations
    on card_placements.allocation_number = consistent_allocations.allocation_number
