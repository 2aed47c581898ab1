{#-
    Small whole numbers as one, so that one running sum is the sum of each: over a month of a large
    estate a running sum costs more than everything around it. Cards take 20 bits, which is more
    than any node has; whether it is measured takes one; the number of the offer is what is left.
-#}
{% macro packed(cards='0', measured='0', offers='0') -%}
    (({{ cards }}) + 1048576 * (({{ measured }}) + 2 * ({{ offers }})))
{%- endmacro %}

{% macro packed_cards(level) -%}
    (({{ level }}) % 1048576)
{%- endmacro %}

{% macro packed_is_measured(level) -%}
    ({{ whole_quotient(level, 1048576) }} % 2 = 1)
{%- endmacro %}

{% macro packed_offer(level) -%}
    {{ whole_quotient(level, 2097152) }}
{%- endmacro %}

{#-
    Sums that run over a day are cheaper than over a month. So each day stands by itself: `day_events`
    has the rows of `all_events`, and what is carried into a day as something that happens in its first
    second; `changes` are the columns to be summed, with their types. A class's day is one number,
    because DuckDB parts and sorts by one twice as fast as by two: days are numbered from 1970-01-01
    and stay below 2^22 to the end of time.
-#}
{% macro day_by_day(changes) -%}
days as (

    select
        node_class_number,
        {{ day_number('event_second') }} as day_number,
        {%- for change in changes %}
        sum({{ change }}) as {{ change }}{{ ',' if not loop.last }}
        {%- endfor %}
    from all_events
    group by node_class_number, {{ day_number('event_second') }}

),

carried as (

    select
        node_class_number,
        day_number * 86400 as event_second,
        {%- for change, type in changes.items() %}
        cast(coalesce(sum({{ change }}) over days_before, 0) as {{ type }}) as {{ change }}
        {{- ',' if not loop.last }}
        {%- endfor %}
    from days
    window
        days_before as (
            partition by node_class_number
            order by day_number
            rows between unbounded preceding and 1 preceding
        )

),

day_events as (

    select
        *,
        node_class_number * 4194304 + {{ day_number('event_second') }} as class_day
    from (
        select * from all_events
        union all
        select * from carried
    ) as events_and_carried

)
{%- endmacro %}

{% macro day_number(second) -%}
    {{ whole_quotient(second, 86400) }}
{%- endmacro %}

{% macro end_of_day(second) -%}
    (({{ day_number(second) }} + 1) * 86400)
{%- endmacro %}
