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
    A class's day as one number: DuckDB parts and sorts by one twice as fast as by two. Days are
    numbered from 1970-01-01 and stay below 2^22 to the end of time.
-#}
{% macro class_day(node_class_number, second) -%}
    (({{ node_class_number }}) * 4194304 + {{ day_number(second) }})
{%- endmacro %}

{% macro day_number(second) -%}
    {{ whole_quotient(second, 86400) }}
{%- endmacro %}

{% macro end_of_day(second) -%}
    (({{ day_number(second) }} + 1) * 86400)
{%- endmacro %}
