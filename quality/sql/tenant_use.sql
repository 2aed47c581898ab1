-- Billed device-seconds of each tenant and weight: all, those in a gap of the samples, and the
-- uncertain ones.
select
    tenant,
    cluster_id,
    weight_numerator,
    weight_denominator,
    cast(sum(billable_seconds * device_count) as bigint) as device_seconds,
    cast(coalesce(
        sum(billable_seconds * device_count) filter (
            where list_contains($one_source_reasons, method_reason)
        ),
        0
    ) as bigint) as gap_device_seconds,
    cast(coalesce(sum(uncertainty_seconds * device_count), 0) as bigint)
        as uncertain_device_seconds
from marts.fct_pod_hours
where
    billing_period = $period
    and belongs_to = 'tenant'
group by all
order by all
