-- noqa: disable=LT02,LT05
-- (jinja repeats a part of this test; its own indentation follows the loop)
-- Invariants 1 and 2: the running and held shares of each node, class and dimension equal those of
-- its pods, with ==. For a shared claim only the sum of both is compared, because its device runs
-- while any of its pods runs. On a node with claims, hours with a dispute are left out, because the
-- accepted treatment decides the seconds of a pod.
with

node_shares as (

    select * from {{ ref('fct_node_share_hours') }}

),

pod_parts as (

    select
        cluster_id,
        node_name,
        gpu_class,
        hour_started_at,
        compute_share_numerator,
        compute_share_denominator,
        memory_share_numerator,
        memory_share_denominator,
        sum(running_seconds * device_count) as running_seconds,
        sum(held_seconds * device_count) as held_seconds,
        max(case when method = 'disputed' then 1 else 0 end) as disputed
    from {{ ref('fct_pod_hours') }}
    where node_name <> ''
    group by
        cluster_id,
        node_name,
        gpu_class,
        hour_started_at,
        compute_share_numerator,
        compute_share_denominator,
        memory_share_numerator,
        memory_share_denominator

),

claim_classes as (

    select
        allocations.cluster_id,
        allocations.node_name,
        allocations.gpu_class,
        max(shares.holder_count) as holder_count
    from {{ ref('int_allocations') }} as allocations
    inner join {{ ref('int_claim_shares') }} as shares
        on
            allocations.cluster_id = shares.cluster_id
            and allocations.claim_uid = shares.claim_uid
            and allocations.resource_key = shares.resource_key
    where allocations.claim_uid <> ''
    group by allocations.cluster_id, allocations.node_name, allocations.gpu_class

),

-- Shares are whole numbers in units of the class; so is the sum of the parts of a shared claim.
pod_shares as (

    {% for dimension in ['compute', 'memory'] %}
        select
            units.cluster_id,
            units.node_name,
            units.gpu_class,
            '{{ dimension }}' as dimension,
            units.hour_started_at,
            pod_parts.running_seconds
            * units.share_denominator
            * pod_parts.{{ dimension }}_share_numerator as running_parts,
            pod_parts.held_seconds
            * units.share_denominator
            * pod_parts.{{ dimension }}_share_numerator as held_parts,
            pod_parts.{{ dimension }}_share_denominator as part_count,
            pod_parts.disputed
        from pod_parts
        inner join node_shares as units
            on
                pod_parts.cluster_id = units.cluster_id
                and pod_parts.node_name = units.node_name
                and pod_parts.gpu_class = units.gpu_class
                and pod_parts.hour_started_at = units.hour_started_at
                and units.dimension = '{{ dimension }}'
        {{ 'union all' if not loop.last }}
    {% endfor %}

),

part_sums as (

    select
        cluster_id,
        node_name,
        gpu_class,
        dimension,
        hour_started_at,
        part_count,
        sum(running_parts) as running_parts,
        sum(held_parts) as held_parts,
        max(disputed) as disputed
    from pod_shares
    group by cluster_id, node_name, gpu_class, dimension, hour_started_at, part_count

),

pod_sums as (

    select
        cluster_id,
        node_name,
        gpu_class,
        dimension,
        hour_started_at,
        sum({{ whole_quotient('running_parts', 'part_count') }}) as running,
        sum({{ whole_quotient('running_parts + held_parts', 'part_count') }}) as allocated,
        max(disputed) as disputed
    from part_sums
    group by cluster_id, node_name, gpu_class, dimension, hour_started_at

)

select
    node_shares.*,
    pod_sums.running as running_of_pods,
    pod_sums.allocated as allocated_of_pods
from node_shares
left join pod_sums
    on
        node_shares.cluster_id = pod_sums.cluster_id
        and node_shares.node_name = pod_sums.node_name
        and node_shares.gpu_class = pod_sums.gpu_class
        and node_shares.dimension = pod_sums.dimension
        and node_shares.hour_started_at = pod_sums.hour_started_at
left join claim_classes
    on
        node_shares.cluster_id = claim_classes.cluster_id
        and node_shares.node_name = claim_classes.node_name
        and node_shares.gpu_class = claim_classes.gpu_class
where
    (
        node_shares.running_share_seconds + node_shares.held_share_seconds
        <> coalesce(pod_sums.allocated, 0)
        and (claim_classes.cluster_id is null or coalesce(pod_sums.disputed, 0) = 0)
    )
    or (
        node_shares.running_share_seconds <> coalesce(pod_sums.running, 0)
        and coalesce(claim_classes.holder_count, 1) = 1
        and (claim_classes.cluster_id is null or coalesce(pod_sums.disputed, 0) = 0)
    )
