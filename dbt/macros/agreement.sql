{#- How far a sample may lie outside the lifecycle: the clocks of kubelet, API server and scraper. -#}
{% macro clock_tolerance_seconds() -%}
    15
{%- endmacro %}


{#- Between two neighbouring samples is a gap when they are further apart than 1.5 × the interval. -#}
{% macro is_gap(distance_ms, interval_seconds) -%}
    (2 * ({{ distance_ms }}) > 3000 * ({{ interval_seconds }}))
{%- endmacro %}


{#- At least so many pods, and at least every fifth one, that end at one scrape are a gap until the
    hour was queried twice. `ingestion.thanos.hour_facts` queries again by the same two numbers. -#}
{% macro least_mass_ending() -%}
    3
{%- endmacro %}

{% macro mass_ending_divisor() -%}
    5
{%- endmacro %}
