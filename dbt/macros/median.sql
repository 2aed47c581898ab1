{#-
    The lower median: a value that is there, so that integers stay integers, and the same in every
    engine. Rows without a value do not count.
-#}
{% macro median(value) -%}
    percentile_disc(0.5) within group (order by {{ value }})
{%- endmacro %}
