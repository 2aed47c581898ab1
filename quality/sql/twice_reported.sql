-- Devices with samples under two names in neighbouring hours. One hour with both names is an
-- upgrade of the exporter.
with

named_twice as (

    select distinct
        cluster_id,
        node_name,
        device_uuid,
        gpu_index,
        instance_id,
        hour_started_at
    from marts.fct_gpu_use
    where
        billing_period = $period
        and has_two_names

)

select
    named_twice.cluster_id,
    named_twice.node_name,
    count(
        distinct row(named_twice.device_uuid, named_twice.gpu_index, named_twice.instance_id)
    ) as device_count,
    count(*) as hour_count,
    min(named_twice.hour_started_at) as first_hour_started_at,
    max(named_twice.hour_started_at) as last_hour_started_at
from named_twice
where
    exists (
        select 1 as neighbour
        from named_twice as beside
        where
            beside.cluster_id = named_twice.cluster_id
            and beside.node_name = named_twice.node_name
            and beside.device_uuid = named_twice.device_uuid
            and beside.gpu_index = named_twice.gpu_index
            and beside.instance_id = named_twice.instance_id
            and abs(epoch(beside.hour_started_at - named_twice.hour_started_at)) = 3600
    )
group by all
order by all
