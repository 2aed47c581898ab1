-- Invariant 2: running + held + idle + unsold + unhealthy + withdrawn + unmeasured = installed, per
-- node, class and dimension, with ==; an allocation beyond the capacity is a separate term. Only
-- unmeasured time has an unmeasured share; in an hour without a source, it is the whole rest.
with

shares as (

    select * from {{ ref('fct_node_share_hours') }}

),

intervals as (

    select
        cluster_id,
        started_second,
        ended_second,
        {{ each_hour('started_second', 'ended_second') }} as hour_second
    from {{ ref('int_unmeasured_intervals') }}

),

unmeasured_hours as (

    select
        cluster_id,
        hour_second,
        sum(
            least(ended_second, hour_second + 3600) - greatest(started_second, hour_second)
        ) as unmeasured_seconds
    from intervals
    group by cluster_id, hour_second

)

select
    shares.cluster_id,
    shares.node_name,
    shares.gpu_class,
    shares.dimension,
    shares.hour_started_at
from shares
left join unmeasured_hours
    on
        shares.cluster_id = unmeasured_hours.cluster_id
        and {{ epoch_seconds('shares.hour_started_at') }} = unmeasured_hours.hour_second
where
    shares.installed_share_seconds + shares.overallocated_share_seconds
    <> shares.running_share_seconds
    + shares.held_share_seconds
    + shares.idle_share_seconds
    + shares.unsold_share_seconds
    + shares.unhealthy_share_seconds
    + shares.withdrawn_share_seconds
    + shares.unmeasured_share_seconds
    or (shares.unmeasured_share_seconds > 0 and unmeasured_hours.cluster_id is null)
    or (
        unmeasured_hours.unmeasured_seconds >= 3600
        and shares.idle_share_seconds
        + shares.unsold_share_seconds
        + shares.unhealthy_share_seconds
        + shares.withdrawn_share_seconds
        > 0
    )
