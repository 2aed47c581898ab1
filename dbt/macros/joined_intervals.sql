{#-
    Intervals joined to one where they follow each other: one row per key and joined interval, with
    the names of its start and its end unchanged. `is_apart` is the condition on which an interval
    begins a new one; `reached` in it is the end of all intervals that start before.

    Equal intervals of a key have no order: the rows of `intervals` are distinct.
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
