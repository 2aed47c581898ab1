-- noqa: disable=LT02,LT05
-- (jinja repeats a part of this model; its own indentation follows the loop)
with

coverage as (

    select distinct
        billing_period,
        cluster_id,
        hour_started_at
    from {{ ref('fct_coverage') }}

),

cluster_hours as (

    select * from {{ ref('fct_cluster_hours') }}

),

node_hours as (

    select * from {{ ref('fct_node_hours') }}

),

clusters as (

    select
        cluster_id,
        min(cluster_name) as cluster_name
    from {{ ref('dim_clusters') }}
    group by cluster_id

),

unmeasured as (

    select
        cluster_id,
        started_second,
        ended_second
    from {{ ref('int_unmeasured_intervals') }}

),

unmeasured_hours as (

    select
        coverage.cluster_id,
        coverage.hour_started_at,
        sum(
            least(unmeasured.ended_second, {{ epoch_seconds('coverage.hour_started_at') }} + 3600)
            - greatest(unmeasured.started_second, {{ epoch_seconds('coverage.hour_started_at') }})
        ) as unmeasured_seconds
    from coverage
    inner join unmeasured
        on
            coverage.cluster_id = unmeasured.cluster_id
            and unmeasured.started_second
            < {{ epoch_seconds('coverage.hour_started_at') }} + 3600
            and unmeasured.ended_second > {{ epoch_seconds('coverage.hour_started_at') }}
    group by coverage.cluster_id, coverage.hour_started_at

),

-- An hour that was not measured is marked and has no number; it is never 0.
report_hours as (

    select
        coverage.billing_period,
        coverage.cluster_id,
        clusters.cluster_name,
        coverage.hour_started_at,
        coalesce(node_hours.node_name, '') as node_name,
        case
            when cluster_hours.cluster_id is null then 'not measured'
            when coalesce(unmeasured_hours.unmeasured_seconds, 0) >= 3600 then 'not measured'
            when coalesce(unmeasured_hours.unmeasured_seconds, 0) > 0 then 'measured in part'
            else 'measured'
        end as measurement,
        cluster_hours.active_worker_nodes,
        cluster_hours.active_worker_nodes_max,
        node_hours.gpu_count_max,
        node_hours.gpu_count_max_bound,
        node_hours.how_known,
        cluster_hours.sum_of_node_max as cluster_gpu_count_max,
        cluster_hours.sum_of_node_max_bound as cluster_gpu_count_max_bound,
        cluster_hours.how_known as cluster_how_known,
        cluster_hours.is_lower_bound
    from coverage
    inner join clusters
        on coverage.cluster_id = clusters.cluster_id
    left join cluster_hours
        on
            coverage.cluster_id = cluster_hours.cluster_id
            and coverage.hour_started_at = cluster_hours.hour_started_at
    left join unmeasured_hours
        on
            coverage.cluster_id = unmeasured_hours.cluster_id
            and coverage.hour_started_at = unmeasured_hours.hour_started_at
    left join node_hours
        on
            coverage.cluster_id = node_hours.cluster_id
            and coverage.hour_started_at = node_hours.hour_started_at

),

marked_hours as (

    select
        billing_period,
        cluster_id,
        cluster_name,
        hour_started_at,
        node_name,
        measurement,
        {% for number in [
            'active_worker_nodes', 'active_worker_nodes_max', 'gpu_count_max',
            'gpu_count_max_bound', 'how_known', 'cluster_gpu_count_max',
            'cluster_gpu_count_max_bound', 'cluster_how_known', 'is_lower_bound',
        ] %}
            case when measurement <> 'not measured' then {{ number }} end as {{ number }}
            {{- ',' if not loop.last }}
        {% endfor %}
    from report_hours

)

select * from marked_hours
