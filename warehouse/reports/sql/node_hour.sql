-- The nodes of an hour, each with the pods at the instant of its largest use.
with

running_pods as (

    select
        cluster_id,
        node_name,
        tenant || '/' || pod_name as pod,
        segment_started_at,
        segment_ended_at,
        -- 720720 is the smallest number that all of 1 to 16 divide. Shares are scaled by it only to
        -- compare them.
        device_count * compute_share_numerator * (720720 // compute_share_denominator) as share
    from fct_pod_hours
    where
        hour_started_at = $at
        and state = 'running'
        and running_seconds > 0

),

instants as (

    select distinct
        cluster_id,
        node_name,
        segment_started_at as instant
    from running_pods

),

levels as (

    select
        instants.cluster_id,
        instants.node_name,
        instants.instant,
        sum(running_pods.share) as share,
        list(distinct running_pods.pod order by running_pods.pod) as pods
    from instants
    inner join running_pods
        on
            instants.cluster_id = running_pods.cluster_id
            and instants.node_name = running_pods.node_name
            and instants.instant >= running_pods.segment_started_at
            and instants.instant < running_pods.segment_ended_at
    group by instants.cluster_id, instants.node_name, instants.instant

),

maxima as (

    select
        cluster_id,
        node_name,
        pods
    from levels
    qualify row_number() over (
        partition by cluster_id, node_name
        order by share desc, instant asc
    ) = 1

),

names as (

    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters
    group by all

)

select
    names.cluster_name,
    hours.node_name,
    hours.gpu_count_max,
    hours.gpu_count_max_bound,
    hours.gpu_capacity,
    hours.how_known,
    hours.is_lower_bound,
    hours.unmeasured_seconds,
    coalesce(maxima.pods, []) as pods
from fct_node_hours as hours
inner join names
    on hours.cluster_id = names.cluster_id
left join maxima
    on
        hours.cluster_id = maxima.cluster_id
        and hours.node_name = maxima.node_name
where
    hours.hour_started_at = $at
    and hours.unmeasured_seconds < 3600
order by names.cluster_name, hours.node_name
