-- One row per pod, kind of device and price, in order of time within a pod's resource.
with

prices as (

    select
        rate_id,
        cast(any_value(rate_nanos_per_hour) as decimal(38, 0)) as rate_nanos_per_hour
    from marts.fct_charges
    where billing_period = $period
    group by rate_id

)

select
    pod_hours.cluster_id,
    pod_hours.pod_uid,
    pod_hours.resource,
    min(pod_hours.segment_started_at) as first_started_at,
    pod_hours.tenant,
    pod_hours.gpu_class,
    pod_hours.mig_profile <> 'whole' as is_slice,
    pod_hours.device_count,
    pod_hours.weight_numerator,
    pod_hours.weight_denominator,
    pod_hours.compute_share_numerator,
    pod_hours.compute_share_denominator,
    prices.rate_nanos_per_hour
from marts.fct_pod_hours as pod_hours
inner join prices
    on pod_hours.rate_id = prices.rate_id
where
    pod_hours.billing_period = $period
    and pod_hours.belongs_to = 'tenant'
    and pod_hours.rate_id <> ''
group by all
order by all
