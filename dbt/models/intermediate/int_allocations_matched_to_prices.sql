{{ config(materialized='ephemeral') }}

with

allocations as (

    select * from {{ ref('int_allocations_classified') }}

),

epochs as (

    select
        epoch_number,
        min(started_second) as epoch_started_second
    from {{ ref('int_segments') }}
    group by epoch_number

),

tenant_spans as (

    select * from {{ ref('stg_decisions__tenant_spans') }}

),

rate_spans as (

    select * from {{ ref('stg_decisions__rate_spans') }}

),

weights as (

    select * from {{ ref('stg_devices__weights') }}

),

policies as (

    select *
    from {{ ref('stg_decisions__policies') }}
    where policy = 'billable_state'

),

outages as (

    select * from {{ ref('stg_decisions__outages') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- Epochs are cut wherever one of these changes, so the start of an epoch decides for all of it.
joined as (

    select
        allocations.allocation_number,
        epochs.epoch_number,
        allocations.cluster_id,
        allocations.namespace,
        allocations.gpu_class,
        allocations.mig_profile,
        allocations.replica_count,
        allocations.holder_count,
        coalesce(tenant_spans.belongs_to, 'tenant') as belongs_to,
        policies.policy_value as billable_state,
        outages.cluster_id is not null as is_outage,
        weights.weight_policy,
        weights.weight_numerator,
        weights.weight_denominator,
        rate_spans.rate_id,
        coalesce(rate_spans.is_profile_price, false) as is_profile_price,
        rate_spans.currency,
        rate_spans.rate_nanos_per_hour,
        rate_spans.valid_from_second,
        rate_spans.valid_until_second,
        parameters.period_started_second,
        parameters.period_ended_second
    from allocations
    cross join epochs
    cross join parameters
    inner join policies
        on
            epochs.epoch_started_second >= policies.valid_from_second
            and epochs.epoch_started_second < policies.valid_until_second
    left join outages
        on
            allocations.cluster_id = outages.cluster_id
            and epochs.epoch_started_second >= outages.started_second
            and epochs.epoch_started_second < outages.ended_second
    left join tenant_spans
        on
            allocations.namespace = tenant_spans.namespace
            and epochs.epoch_started_second >= tenant_spans.valid_from_second
            and epochs.epoch_started_second < tenant_spans.valid_until_second
    left join weights
        on
            allocations.labels_sha256 = weights.labels_sha256
            and allocations.resource = weights.resource
            and epochs.epoch_started_second >= weights.valid_from_second
            and epochs.epoch_started_second < weights.valid_until_second
    left join rate_spans
        on
            allocations.cluster_id = rate_spans.cluster_id
            and allocations.gpu_class = rate_spans.gpu_class
            and allocations.mig_profile = rate_spans.mig_profile
            and epochs.epoch_started_second >= rate_spans.valid_from_second
            and epochs.epoch_started_second < rate_spans.valid_until_second

)

select * from joined
