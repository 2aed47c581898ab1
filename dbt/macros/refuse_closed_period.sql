{#-
    Stops a build of a period whose invoices are sealed. A recount beside the sealed facts, and a
    rebuild of the sealed facts, do not list the period in closed_periods.
-#}
{% macro refuse_closed_period() -%}
    {%- if execute and load_relation(source('raw', 'closed_periods')) is not none -%}
        {%- set refused = run_query(
            'select parameters.billing_period from ' ~ source('raw', 'parameters')
            ~ ' as parameters inner join ' ~ source('raw', 'closed_periods') ~ ' as closed_periods'
            ~ ' on parameters.billing_period = closed_periods.billing_period'
        ) -%}
        {%- for row in refused -%}
            {{ exceptions.raise_compiler_error(
                'period ' ~ row[0] ~ ' is closed: its invoices are sealed, and it is not counted'
                ~ ' again in place'
            ) }}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro %}
