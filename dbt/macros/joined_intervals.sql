{#-
    Joins consecutive intervals: one row per key and joined interval; the columns of start and end keep
    their names. `is_apart` is the condition that an interval begins a new joined interval; in it,
    `reached` is the latest end of all earlier intervals.

    The rows of `intervals` must be distinct, because equal intervals of a key have no order.
-#}
{% macro joined_intervals(intervals, keys, started, ended, is_apart) -%}
{%- set each_key = keys | join(', ') -%}
    select
        {{ each_key }},
        min({{ started }}) as {{ started }},
        max({{ ended }}) as {{ ended }}
    from (
        select
            *,
            sum(case when {{ is_apart }} then 1 else 0 end) over (
                partition by {{ each_key }}
                order by {{ started }}, {{ ended }}
                rows between unbounded preceding and current row
            ) as interval_number
        from (
            select
                *,
                max({{ ended }}) over (
                    partition by {{ each_key }}
                    order by {{ started }}, {{ ended }}
                    rows between unbounded preceding and 1 preceding
                ) as reached
            from {{ intervals }}
        ) as with_reach
    ) as numbered
    group by {{ each_key }}, interval_number
{%- endmacro %}
