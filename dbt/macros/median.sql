{#-
    The lower median of integers: one of the values, as an integer, because Spark computes a DOUBLE. NULL
    does not count.
-#}
{% macro median(value) -%}
    cast(percentile_disc(0.5) within group (order by {{ value }}) as bigint)
{%- endmacro %}
