with

pod_hours as (

    select *
    from {{ ref('fct_pod_hours') }}
    where is_outage and billable_seconds > 0

),

outages as (

    select * from {{ ref('stg_decisions__outages') }}

),

-- Segments are cut where an outage begins and ends. A segment with several outages has one credit:
-- for the outage of the cluster, else of the node, else of the pod.
credited_hours as (

    select
        pod_hours.*,
        outages.node_name as outage_node_name,
        outages.pod_uid as outage_pod_uid,
        outages.started_second as outage_started_second,
        outages.ended_second as outage_ended_second,
        outages.reason,
        row_number() over (
            partition by
                pod_hours.cluster_id,
                pod_hours.pod_uid,
                pod_hours.resource,
                pod_hours.segment_started_at,
                pod_hours.segment_ended_at,
                pod_hours.state,
                pod_hours.method_reason
            order by outages.pod_uid, outages.node_name
        ) as outage_rank
    from pod_hours
    inner join outages
        on
            pod_hours.cluster_id = outages.cluster_id
            and outages.node_name in ('', pod_hours.node_name)
            and outages.pod_uid in ('', pod_hours.pod_uid)
            and {{ epoch_seconds('pod_hours.segment_started_at') }} >= outages.started_second
            and {{ epoch_seconds('pod_hours.segment_started_at') }} < outages.ended_second

),

-- A credit is the cost of its pod-hours, so it never exceeds the credited charge.
credits as (

    select
        billing_period,
        tenant,
        belongs_to,
        cluster_id,
        gpu_class,
        mig_profile,
        weight_numerator,
        weight_denominator,
        weight_policy,
        rate_id,
        currency,
        outage_node_name,
        outage_pod_uid,
        {{ instant('outage_started_second') }} as outage_started_at,
        {{ instant('outage_ended_second') }} as outage_ended_at,
        reason,
        min(segment_started_at) as credit_started_at,
        max(segment_ended_at) as credit_ended_at,
        cast(sum(billable_seconds * device_count) as bigint) as device_seconds,
        cast(-sum(cost_nanos) as decimal(38, 0)) as credit_nanos
    from credited_hours
    where outage_rank = 1
    group by all

)

select * from credits
