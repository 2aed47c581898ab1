{#- How far a sample may lie outside the lifecycle: the clocks of kubelet, API server and scraper. -#}
{% macro clock_tolerance_seconds() -%}
    15
{%- endmacro %}


{#- Two neighbouring samples are a hole when they are further apart than 1.5 × the interval. -#}
{% macro is_hole(distance_ms, interval_seconds) -%}
    (2 * ({{ distance_ms }}) > 3000 * ({{ interval_seconds }}))
{%- endmacro %}


{#- So many pods, and every fifth one, ending at one scrape are a hole until asked twice. -#}
{% macro least_mass_ending() -%}
    5
{%- endmacro %}

{% macro mass_ending_divisor() -%}
    5
{%- endmacro %}
