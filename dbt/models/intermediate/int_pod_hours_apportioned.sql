with

pod_hours as (

    select * from {{ ref('int_pod_hours_priced') }}

),

charges as (

    select * from {{ ref('int_charges') }}

),

-- Every piece of a charge has the charge's weight and rate, so its exact share of the cost is
-- its own device-seconds times both.
shares as (

    select
        pod_hours.cluster_id,
        pod_hours.pod_uid,
        pod_hours.resource_key,
        pod_hours.started_second,
        pod_hours.ended_second,
        pod_hours.allocation_state,
        pod_hours.method_reason,
        charges.charge_number,
        charges.cost_nanos as charge_nanos,
        {{ whole_quotient(
            priced_numerator(
                'pod_hours.billable_seconds * pod_hours.device_count',
                'pod_hours.weight_numerator',
                'pod_hours.rate_nanos_per_hour'
            ),
            priced_denominator('pod_hours.weight_denominator')
        ) }} as whole_nanos,
        {{ priced_numerator(
            'pod_hours.billable_seconds * pod_hours.device_count',
            'pod_hours.weight_numerator',
            'pod_hours.rate_nanos_per_hour'
        ) }} % {{ priced_denominator('pod_hours.weight_denominator') }} as remainder
    from pod_hours
    inner join charges
        on
            pod_hours.namespace = charges.namespace
            and pod_hours.belongs_to = charges.belongs_to
            and pod_hours.cluster_id = charges.cluster_id
            and pod_hours.gpu_class = charges.gpu_class
            and pod_hours.mig_profile = charges.mig_profile
            and pod_hours.weight_numerator = charges.weight_numerator
            and pod_hours.weight_denominator = charges.weight_denominator
            and pod_hours.weight_policy = charges.weight_policy
            and pod_hours.rate_id = charges.rate_id
            and pod_hours.charge_started_second = charges.charge_started_second

),

ranked as (

    select
        *,
        charge_nanos - sum(whole_nanos) over (partition by charge_number) as left_nanos,
        row_number() over (
            partition by charge_number
            order by
                remainder desc,
                pod_uid asc,
                resource_key asc,
                started_second asc,
                ended_second asc,
                allocation_state asc,
                method_reason asc
        ) as remainder_rank
    from shares

),

-- Largest remainder: the pieces add up to the charge, each within one nano of its exact share.
apportioned as (

    select
        cluster_id,
        pod_uid,
        resource_key,
        started_second,
        ended_second,
        allocation_state,
        method_reason,
        cast(
            whole_nanos + case when remainder_rank <= left_nanos then 1 else 0 end
            as decimal(38, 0)
        ) as cost_nanos
    from ranked

)

select * from apportioned
