-- The running device-seconds of the provider, by the share of a card that a device has.
with

shares as (

    select
        cluster_id,
        gpu_class,
        'compute' as dimension,
        running_seconds * device_count as device_seconds,
        compute_share_numerator as numerator,
        compute_share_denominator as denominator
    from marts.fct_pod_hours
    where billing_period = $period and belongs_to = 'provider'
    union all
    select
        cluster_id,
        gpu_class,
        'memory' as dimension,
        running_seconds * device_count as device_seconds,
        memory_share_numerator as numerator,
        memory_share_denominator as denominator
    from marts.fct_pod_hours
    where billing_period = $period and belongs_to = 'provider'

)

select
    cluster_id,
    gpu_class,
    dimension,
    numerator,
    denominator,
    cast(sum(device_seconds) as decimal(38, 0)) as device_seconds
from shares
group by all
order by all
