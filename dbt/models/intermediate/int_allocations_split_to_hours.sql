with

stretches as (

    select * from {{ ref('int_stretches_split_to_hours') }}

),

allocations as (

    select
        allocation_number,
        pod_number,
        cluster_id,
        pod_uid,
        device_count
    from {{ ref('int_allocations') }}

),

prices as (

    select
        allocation_number,
        epoch_number,
        charge_number,
        billable_state,
        is_outage
    from {{ ref('int_allocations_priced') }}

),

accepted_gaps as (

    select * from {{ ref('stg_decisions__accepted_gaps') }}

),

-- What was signed for a disputed piece: for its pod, or else for its cluster.
signed as (

    select
        stretches.pod_number,
        stretches.started_second,
        stretches.ended_second,
        max_by(
            accepted_gaps.treatment,
            (case when accepted_gaps.pod_uid = '' then '0' else '1' end) || accepted_gaps.treatment
        ) as treatment
    from stretches
    inner join allocations
        on stretches.pod_number = allocations.pod_number
    inner join accepted_gaps
        on
            allocations.cluster_id = accepted_gaps.cluster_id
            and accepted_gaps.pod_uid in ('', allocations.pod_uid)
            and accepted_gaps.started_second <= stretches.started_second
            and stretches.ended_second <= accepted_gaps.ended_second
    where stretches.method = 'disputed'
    group by stretches.pod_number, stretches.started_second, stretches.ended_second

),

treated as (

    select
        stretches.*,
        coalesce(signed.treatment, '') as treatment,
        case
            when stretches.method = 'missing' then 0
            when stretches.method <> 'disputed'
                then stretches.ended_second - stretches.started_second
            when signed.treatment = 'bill_samples' and stretches.is_sampled
                then stretches.ended_second - stretches.started_second
            when signed.treatment = 'bill_samples' then 0
            when stretches.is_in_lifecycle
                then stretches.ended_second - stretches.started_second
            else 0
        end as counted_seconds
    from stretches
    left join signed
        on
            stretches.method = 'disputed'
            and stretches.pod_number = signed.pod_number
            and stretches.started_second = signed.started_second
            and stretches.ended_second = signed.ended_second

),

pieces as (

    select
        allocations.allocation_number,
        allocations.device_count,
        prices.charge_number,
        prices.is_outage,
        treated.segment_number,
        treated.hour_second,
        treated.started_second,
        treated.ended_second,
        treated.allocation_state,
        treated.method,
        treated.method_reason,
        treated.treatment,
        treated.uncertainty_seconds,
        treated.is_in_lifecycle,
        treated.is_sampled,
        treated.counted_seconds,
        case
            when treated.treatment in ('bill_nothing', 'waive') then 0
            when treated.allocation_state = 'running' or prices.billable_state = 'held'
                then treated.counted_seconds
            else 0
        end as billable_seconds
    from treated
    inner join allocations
        on treated.pod_number = allocations.pod_number
    inner join prices
        on
            allocations.allocation_number = prices.allocation_number
            and treated.epoch_number = prices.epoch_number

)

select * from pieces
