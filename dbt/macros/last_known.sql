{#- The last value that is not null, of the rows that a window reaches. -#}
{% macro last_known(quantity) -%}
    {{ return(adapter.dispatch('last_known', 'gpu_ledger')(quantity)) }}
{%- endmacro %}

{% macro duckdb__last_known(quantity) -%}
    last_value({{ quantity }} ignore nulls)
{%- endmacro %}

{% macro spark__last_known(quantity) -%}
    last_value({{ quantity }}, true)
{%- endmacro %}
