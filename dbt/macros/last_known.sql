{#- The last value of a window's rows that is not null. -#}
{% macro last_known(quantity) -%}
    {{ return(adapter.dispatch('last_known', 'gpu_ledger')(quantity)) }}
{%- endmacro %}

{% macro duckdb__last_known(quantity) -%}
    last_value({{ quantity }} ignore nulls)
{%- endmacro %}

{% macro spark__last_known(quantity) -%}
    last_value({{ quantity }}, true)
{%- endmacro %}
