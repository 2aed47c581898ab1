with

stretches as (

    select * from {{ ref('int_stretches_split_to_epochs') }}

),

pods as (

    select * from {{ ref('int_pods') }}

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
    inner join pods
        on stretches.pod_number = pods.pod_number
    inner join accepted_gaps
        on
            pods.cluster_id = accepted_gaps.cluster_id
            and accepted_gaps.pod_uid in ('', pods.pod_uid)
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
            when stretches.method = 'missing' then false
            when stretches.method <> 'disputed' then true
            when signed.treatment = 'bill_samples' then stretches.is_sampled
            else stretches.is_in_lifecycle
        end as is_counted
    from stretches
    left join signed
        on
            stretches.method = 'disputed'
            and stretches.pod_number = signed.pod_number
            and stretches.started_second = signed.started_second
            and stretches.ended_second = signed.ended_second

)

select * from treated
