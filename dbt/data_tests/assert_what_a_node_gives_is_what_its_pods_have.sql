-- noqa: disable=LT02,LT05
-- (jinja repeats a part of this test; its own indentation follows the loop)
-- Invariants 1 and 2: of each node, class and dimension, the shares that run and are held there are those
-- its pods run and hold, with ==. Of a shared claim only both together: its device runs while any of
-- its pods does; and not beside a dispute, which counts for a pod as it was signed.
with

node_shares as (

    select * from {{ ref('fct_node_share_hours') }}

),

parts as (

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

claimed as (

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

-- Shares are whole numbers of the class's unit; the k-th parts of a claim add up to such.
pod_shares as (

    {% for dimension in ['compute', 'memory'] %}
        select
            units.cluster_id,
            units.node_name,
            units.gpu_class,
            '{{ dimension }}' as dimension,
            units.hour_started_at,
            parts.running_seconds * units.share_denominator * parts.{{ dimension }}_share_numerator
                as running_parts,
            parts.held_seconds * units.share_denominator * parts.{{ dimension }}_share_numerator
                as held_parts,
            parts.{{ dimension }}_share_denominator as part_count,
            parts.disputed
        from parts
        inner join node_shares as units
            on
                parts.cluster_id = units.cluster_id
                and parts.node_name = units.node_name
                and parts.gpu_class = units.gpu_class
                and parts.hour_started_at = units.hour_started_at
                and units.dimension = '{{ dimension }}'
        {{ 'union all' if not loop.last }}
    {% endfor %}

),

by_parts as (

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

of_pods as (

    select
        cluster_id,
        node_name,
        gpu_class,
        dimension,
        hour_started_at,
        sum({{ whole_quotient('running_parts', 'part_count') }}) as running,
        sum({{ whole_quotient('running_parts + held_parts', 'part_count') }}) as taken,
        max(disputed) as disputed
    from by_parts
    group by cluster_id, node_name, gpu_class, dimension, hour_started_at

)

select
    node_shares.*,
    of_pods.running as running_of_pods,
    of_pods.taken as taken_of_pods
from node_shares
left join of_pods
    on
        node_shares.cluster_id = of_pods.cluster_id
        and node_shares.node_name = of_pods.node_name
        and node_shares.gpu_class = of_pods.gpu_class
        and node_shares.dimension = of_pods.dimension
        and node_shares.hour_started_at = of_pods.hour_started_at
left join claimed
    on
        node_shares.cluster_id = claimed.cluster_id
        and node_shares.node_name = claimed.node_name
        and node_shares.gpu_class = claimed.gpu_class
where
    (
        node_shares.running_share_seconds + node_shares.held_share_seconds
        <> coalesce(of_pods.taken, 0)
        and (claimed.cluster_id is null or coalesce(of_pods.disputed, 0) = 0)
    )
    or (
        node_shares.running_share_seconds <> coalesce(of_pods.running, 0)
        and coalesce(claimed.holder_count, 1) = 1
        and (claimed.cluster_id is null or coalesce(of_pods.disputed, 0) = 0)
    )
