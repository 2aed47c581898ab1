{#- How far a sample may lie outside the lifecycle, because kubelet, API server and scraper have
    different clocks. -#}
{% macro clock_tolerance_seconds() -%}
    15
{%- endmacro %}


{#- Whether two neighbouring samples have a gap between them: more than 1.5 × the sampling interval. -#}
{% macro is_gap(distance_ms, interval_seconds) -%}
    (2 * ({{ distance_ms }}) > 3000 * ({{ interval_seconds }}))
{%- endmacro %}


{#- If at least 3 pods, and at least one pod in 5, end at one scrape, the time after it is a gap until
    the hour was queried twice. `ingestion.thanos.hour_facts` repeats a query by the same numbers. -#}
{% macro least_mass_ending() -%}
    3
{%- endmacro %}

{% macro mass_ending_divisor() -%}
    5
{%- endmacro %}
