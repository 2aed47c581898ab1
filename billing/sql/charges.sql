-- The charges of the period.
select
    tenant,
    belongs_to,
    gpu_class,
    mig_profile,
    cluster_id,
    weight_numerator,
    weight_denominator,
    weight_policy,
    rate_id,
    charge_started_at,
    charge_ended_at,
    rate_nanos_per_hour,
    currency,
    device_seconds,
    cost_nanos
from marts.fct_charges
where
    billing_period = $period
    and device_seconds > 0
order by all
