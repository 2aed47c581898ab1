-- The credits for outages, each with the charge that it reduces. A rate may have several intervals,
-- so the start of a credit decides its charge.
select
    charges.tenant,
    charges.belongs_to,
    charges.gpu_class,
    charges.mig_profile,
    charges.cluster_id,
    charges.weight_numerator,
    charges.weight_denominator,
    charges.weight_policy,
    charges.rate_id,
    charges.charge_started_at,
    charges.charge_ended_at,
    charges.rate_nanos_per_hour,
    charges.currency,
    cast(-sum(credits.device_seconds) as bigint) as device_seconds,
    cast(sum(credits.credit_nanos) as decimal(38, 0)) as cost_nanos
from marts.fct_outage_credits as credits
inner join marts.fct_charges as charges
    on
        credits.billing_period = charges.billing_period
        and credits.tenant = charges.tenant
        and credits.belongs_to = charges.belongs_to
        and credits.gpu_class = charges.gpu_class
        and credits.mig_profile = charges.mig_profile
        and credits.cluster_id = charges.cluster_id
        and credits.weight_numerator = charges.weight_numerator
        and credits.weight_denominator = charges.weight_denominator
        and credits.weight_policy = charges.weight_policy
        and credits.rate_id = charges.rate_id
        and credits.credit_started_at >= charges.charge_started_at
        and credits.credit_started_at < charges.charge_ended_at
where credits.billing_period = $period
group by all
order by all
