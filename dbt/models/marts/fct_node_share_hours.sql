with

levels as (

    select
        *,
        ended_second - started_second as level_seconds
    from {{ ref('int_node_class_cards') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

dimensions as (

    {% for dimension in ['compute', 'memory'] %}
        select
            cluster_id,
            node_name,
            gpu_class,
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

-- More allocated than there is, is a finding; here it is a term, so that the sum stays exact.
terms as (

    select
        *,
        offered - running - held - unhealthy as free,
        installed - withdrawn - offered as unsold
    from dimensions

),

weighted as (

    select
        *,
        level_seconds * greatest(free, 0) as free_seconds,
        level_seconds * greatest(unsold, 0) as unsold_seconds,
        level_seconds * (greatest(-free, 0) + greatest(-unsold, 0)) as overallocated_seconds
    from terms

),

summed as (

    select
        parameters.billing_period,
        weighted.cluster_id,
        weighted.node_name,
        weighted.gpu_class,
        weighted.dimension,
        {{ instant('weighted.hour_second') }} as hour_started_at,
        weighted.share_denominator,
        cast(sum(level_seconds * installed) as decimal(38, 0)) as installed_share_seconds,
        cast(sum(level_seconds * running) as decimal(38, 0)) as running_share_seconds,
        cast(sum(level_seconds * held) as decimal(38, 0)) as held_share_seconds,
        cast(sum(case when is_unmeasured then 0 else free_seconds end) as decimal(38, 0))
            as idle_share_seconds,
        cast(sum(case when is_unmeasured then 0 else unsold_seconds end) as decimal(38, 0))
            as unsold_share_seconds,
        cast(
            sum(case when is_unmeasured then 0 else level_seconds * unhealthy end)
            as decimal(38, 0)
        ) as unhealthy_share_seconds,
        cast(
            sum(case when is_unmeasured then 0 else level_seconds * withdrawn end)
            as decimal(38, 0)
        ) as withdrawn_share_seconds,
        cast(
            sum(
                case
                    when is_unmeasured
                        then
                            free_seconds + unsold_seconds + level_seconds * (unhealthy + withdrawn)
                    else 0
                end
            )
            as decimal(38, 0)
        ) as unmeasured_share_seconds,
        cast(sum(overallocated_seconds) as decimal(38, 0)) as overallocated_share_seconds
    from weighted
    cross join parameters
    group by
        parameters.billing_period,
        weighted.cluster_id,
        weighted.node_name,
        weighted.gpu_class,
        weighted.dimension,
        weighted.hour_second,
        weighted.share_denominator

)

select * from summed
