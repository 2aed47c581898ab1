{#-
    The levels of quantities as rows per key and interval of an hour, from the changes of their amounts.
    `changes` has a row per key and `event_second`; `hours` has a row per key and measured hour.

    The level at the start of an hour is the sum of all earlier changes. Each hour is then summed
    alone: one sum over all changes of a month takes several times as long.

    All changes of one second are added before a level is read, so that an end and a start in one
    second do not overlap.
-#}
{% macro levels_by_hour(changes, hours, keys, quantities) -%}
{%- set each_key = keys | join(', ') -%}
{%- set hour_second = whole_quotient('event_second', 3600) ~ ' * 3600' -%}
    select
        {% for key in keys %}
            hours.{{ key }},
        {% endfor %}
        hours.hour_second,
        greatest(levels.event_second, hours.measured_from_second) as started_second,
        least(
            coalesce(levels.next_second, hours.measured_until_second), hours.measured_until_second
        ) as ended_second,
        {% for quantity in quantities %}
            levels.{{ quantity }}{{ ',' if not loop.last }}
        {% endfor %}
    from (
        select
            {{ each_key }},
            hour_second,
            event_second,
            lead(event_second) over so_far as next_second,
            {% for quantity in quantities %}
                cast(sum({{ quantity }}) over so_far as bigint) as {{ quantity }}
                {{- ',' if not loop.last }}
            {% endfor %}
        from (
            select
                {{ each_key }},
                event_second,
                {{ hour_second }} as hour_second,
                {% for quantity in quantities %}
                    {{ quantity }}{{ ',' if not loop.last }}
                {% endfor %}
            from {{ changes }}
            union all
            select
                {{ each_key }},
                hour_second as event_second,
                hour_second,
                {% for quantity in quantities %}
                    cast(
                        coalesce(
                            sum({{ quantity }}) over (
                                partition by {{ each_key }}
                                order by hour_second
                                rows between unbounded preceding and 1 preceding
                            ),
                            0
                        )
                        as bigint
                    ) as {{ quantity }}{{ ',' if not loop.last }}
                {% endfor %}
            from (
                select
                    {{ each_key }},
                    hour_second,
                    {% for quantity in quantities %}
                        sum({{ quantity }}) as {{ quantity }}{{ ',' if not loop.last }}
                    {% endfor %}
                from (
                    select
                        {{ each_key }},
                        {{ hour_second }} as hour_second,
                        {% for quantity in quantities %}
                            {{ quantity }}{{ ',' if not loop.last }}
                        {% endfor %}
                    from {{ changes }}
                    union all
                    select
                        {{ each_key }},
                        hour_second,
                        {% for quantity in quantities %}
                            0 as {{ quantity }}{{ ',' if not loop.last }}
                        {% endfor %}
                    from {{ hours }}
                ) as hours_and_changes
                group by {{ each_key }}, hour_second
            ) as hour_changes
        ) as events
        window so_far as (partition by {{ each_key }}, hour_second order by event_second)
    ) as levels
    inner join {{ hours }} as hours
        on
            {% for key in keys %}
                levels.{{ key }} = hours.{{ key }} and
            {% endfor %}
            levels.hour_second = hours.hour_second
    where
        coalesce(levels.next_second, hours.measured_until_second) > levels.event_second
        and coalesce(levels.next_second, hours.measured_until_second) > hours.measured_from_second
        and levels.event_second < hours.measured_until_second
{%- endmacro %}
