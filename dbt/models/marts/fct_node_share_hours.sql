-- noqa: disable=LT02,LT05
-- (jinja repeats parts of this model; its own indentation follows the loops)
{% set when_measured = {
    'idle': 'free', 'unsold': 'unsold', 'unhealthy': 'unhealthy', 'withdrawn': 'withdrawn',
} %}

with

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

levels as (

    select
        levels.*,
        levels.ended_second - levels.started_second as level_seconds,
        offers.installed_cards,
        offers.offering_cards,
        offers.offered_compute,
        offers.offered_memory,
        offers.unhealthy_compute,
        offers.unhealthy_memory,
        offers.unmeasured,
        node_classes.class_compute_unit,
        node_classes.class_memory_unit
    from {{ ref('int_node_class_use') }} as levels
    inner join {{ ref('int_node_offer_cards') }} as offers
        on
            levels.node_class_number = offers.node_class_number
            and levels.offer_number = offers.offer_number
    inner join node_classes
        on levels.node_class_number = node_classes.node_class_number

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

dimensions as (

    {% for dimension in ['compute', 'memory'] %}
        select
            node_class_number,
            hour_second,
            '{{ dimension }}' as dimension,
            class_{{ dimension }}_unit as share_denominator,
            level_seconds,
            unmeasured > 0 as is_unmeasured,
            installed_cards * class_{{ dimension }}_unit as installed,
            running_{{ dimension }} as running,
            held_{{ dimension }} as held,
            offered_{{ dimension }} as offered,
            unhealthy_{{ dimension }} as unhealthy,
            greatest(installed_cards - offering_cards, 0) * class_{{ dimension }}_unit as withdrawn
        from levels
        {{ 'union all' if not loop.last }}
    {% endfor %}

),

-- An allocation beyond the capacity is a finding. It is a term here, so that the sum is exact.
terms as (

    select
        *,
        offered - running - held - unhealthy as free,
        installed - withdrawn - offered as unsold
    from dimensions

),

weighted_terms as (

    select
        *,
        level_seconds * greatest(free, 0) as free_seconds,
        level_seconds * greatest(unsold, 0) as unsold_seconds,
        level_seconds * unhealthy as unhealthy_seconds,
        level_seconds * withdrawn as withdrawn_seconds,
        level_seconds * (greatest(-free, 0) + greatest(-unsold, 0)) as overallocated_seconds
    from terms

),

hour_sums as (

    select
        node_class_number,
        dimension,
        hour_second,
        share_denominator,
        sum(level_seconds * installed) as installed,
        sum(level_seconds * running) as running,
        sum(level_seconds * held) as held,
        {% for name, term in when_measured.items() %}
            sum(case when is_unmeasured then 0 else {{ term }}_seconds end) as {{ name }},
        {% endfor %}
        sum(
            case
                when is_unmeasured
                    then free_seconds + unsold_seconds + unhealthy_seconds + withdrawn_seconds
                else 0
            end
        ) as unmeasured,
        sum(overallocated_seconds) as overallocated
    from weighted_terms
    group by node_class_number, dimension, hour_second, share_denominator

),

share_hours as (

    select
        parameters.billing_period,
        node_classes.cluster_id,
        node_classes.node_name,
        node_classes.gpu_class,
        hour_sums.dimension,
        {{ instant('hour_sums.hour_second') }} as hour_started_at,
        hour_sums.share_denominator,
        {% for name in [
            'installed', 'running', 'held', 'idle', 'unsold', 'unhealthy', 'withdrawn',
            'unmeasured', 'overallocated',
        ] %}
            cast(hour_sums.{{ name }} as decimal(38, 0)) as {{ name }}_share_seconds
            {{- ',' if not loop.last }}
        {% endfor %}
    from hour_sums
    inner join node_classes
        on hour_sums.node_class_number = node_classes.node_class_number
    cross join parameters

)

select * from share_hours
