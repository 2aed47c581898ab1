-- Devices with samples under two names in neighbouring hours. One hour with both names is an
-- upgrade of the exporter.
with

double_readings as (

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
    double_readings.cluster_id,
    double_readings.node_name,
    count(
        distinct row(
            double_readings.device_uuid, double_readings.gpu_index, double_readings.instance_id
        )
    ) as device_count,
    count(*) as hour_count,
    min(double_readings.hour_started_at) as first_hour_started_at,
    max(double_readings.hour_started_at) as last_hour_started_at
from double_readings
where
    exists (
        select 1 as neighbour
        from double_readings as beside
        where
            beside.cluster_id = double_readings.cluster_id
            and beside.node_name = double_readings.node_name
            and beside.device_uuid = double_readings.device_uuid
            and beside.gpu_index = double_readings.gpu_index
            and beside.instance_id = double_readings.instance_id
            and abs(epoch(beside.hour_started_at - double_readings.hour_started_at)) = 3600
    )
group by all
order by all
