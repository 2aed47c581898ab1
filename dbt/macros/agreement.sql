{#- How far a sample may lie outside the lifecycle: the clocks of kubelet, API server and scraper. -#}
{% macro clock_tolerance_seconds() -%}
    15
{%- endmacro %}


{#- Two neighbouring samples are a hole when they are further apart than 1.5 × the interval. -#}
{% macro is_hole(distance_ms, interval_seconds) -%}
    (2 * ({{ distance_ms }}) > 3000 * ({{ interval_seconds }}))
{%- endmacro %}


{#- At least so many pods, and at least every fifth one, that end at one scrape are a hole until the
    hour was asked twice. `ingestion.thanos.facts` asks again by the same two numbers. -#}
{% macro least_mass_ending() -%}
    3
{%- endmacro %}

{% macro mass_ending_divisor() -%}
    5
{%- endmacro %}
