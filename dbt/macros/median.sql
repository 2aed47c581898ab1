{#-
    The lower median of integers, which is one of them. Spark computes it as a DOUBLE. Rows without a
    value do not count.
-#}
{% macro median(value) -%}
    cast(percentile_disc(0.5) within group (order by {{ value }}) as bigint)
{%- endmacro %}
