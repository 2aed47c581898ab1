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
