with

stretches as (

    select * from {{ ref('int_stretches_split_to_hours') }}

),

devices as (

    select * from {{ ref('int_allocation_devices') }}

),

accepted_gaps as (

    select * from {{ ref('stg_decisions__accepted_gaps') }}

),

-- What was signed for a disputed piece: for its pod, or else for its cluster.
signed as (

    select
        stretches.cluster_id,
        stretches.pod_uid,
        stretches.started_second,
        stretches.ended_second,
        max_by(
            accepted_gaps.treatment,
            (case when accepted_gaps.pod_uid = '' then '0' else '1' end) || accepted_gaps.treatment
        ) as treatment
    from stretches
    inner join accepted_gaps
        on
            stretches.cluster_id = accepted_gaps.cluster_id
            and accepted_gaps.pod_uid in ('', stretches.pod_uid)
            and accepted_gaps.started_second <= stretches.started_second
            and stretches.ended_second <= accepted_gaps.ended_second
    where stretches.method = 'disputed'
    group by
        stretches.cluster_id, stretches.pod_uid, stretches.started_second, stretches.ended_second

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
            and stretches.cluster_id = signed.cluster_id
            and stretches.pod_uid = signed.pod_uid
            and stretches.started_second = signed.started_second
            and stretches.ended_second = signed.ended_second

),

allocations as (

    select
        treated.cluster_id,
        treated.pod_uid,
        devices.resource_key,
        devices.resource,
        devices.namespace,
        devices.node_name,
        devices.device_count,
        devices.device_kind,
        devices.gpu_class,
        devices.mig_profile,
        devices.labels_sha256,
        devices.replica_count,
        devices.compute_share_numerator,
        devices.compute_share_denominator,
        devices.memory_share_numerator,
        devices.memory_share_denominator,
        treated.hour_second,
        treated.started_second,
        treated.ended_second,
        treated.allocation_state,
        treated.method,
        treated.method_reason,
        treated.treatment,
        treated.uncertainty_seconds,
        treated.counted_seconds,
        case when treated.is_in_lifecycle then treated.ended_second - treated.started_second else 0 end
            as lifecycle_seconds,
        case when treated.is_sampled then treated.ended_second - treated.started_second else 0 end
            as sampled_seconds
    from treated
    inner join devices
        on
            treated.cluster_id = devices.cluster_id
            and treated.pod_uid = devices.pod_uid

)

select * from allocations
