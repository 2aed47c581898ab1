with

charges as (

    select
        charge_number,
        cluster_id,
        namespace,
        belongs_to,
        gpu_class,
        mig_profile,
        weight_policy,
        weight_numerator,
        weight_denominator,
        rate_id,
        rate_nanos_per_hour,
        currency,
        charge_started_second,
        charge_ended_second,
        cast(sum(billable_seconds * device_count) as bigint) as device_seconds
    from {{ ref('int_priced_segments') }}
    group by
        charge_number,
        cluster_id,
        namespace,
        belongs_to,
        gpu_class,
        mig_profile,
        weight_policy,
        weight_numerator,
        weight_denominator,
        rate_id,
        rate_nanos_per_hour,
        currency,
        charge_started_second,
        charge_ended_second

)

select
    *,
    {{ price_nanos(
        'device_seconds', 'weight_numerator', 'weight_denominator', 'rate_nanos_per_hour'
    ) }} as cost_nanos
from charges
