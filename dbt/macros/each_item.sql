{#- One row per item of a list. -#}
{% macro each_item(list) -%}
    {{ return(adapter.dispatch('each_item', 'gpu_ledger')(list)) }}
{%- endmacro %}

{% macro duckdb__each_item(list) -%}
    unnest({{ list }})
{%- endmacro %}

{% macro spark__each_item(list) -%}
    explode({{ list }})
{%- endmacro %}
