{#- Whether a list of texts contains a text. -#}
{% macro list_contains(list, text) -%}
    array_contains({{ list }}, '{{ text }}')
{%- endmacro %}


{#- A map of texts as JSON, with its entries in the order of their keys. -#}
{% macro map_as_json(map) -%}
    {{ return(adapter.dispatch('map_as_json', 'gpu_ledger')(map)) }}
{%- endmacro %}

{% macro duckdb__map_as_json(map) -%}
    cast(to_json(map_from_entries(list_sort(map_entries({{ map }})))) as varchar)
{%- endmacro %}

{% macro spark__map_as_json(map) -%}
    to_json(map_from_entries(array_sort(map_entries({{ map }}))))
{%- endmacro %}


{#- One row per entry of a map, as a key and a value. -#}
{% macro each_entry(map) -%}
    {{ return(adapter.dispatch('each_entry', 'gpu_ledger')(map)) }}
{%- endmacro %}

{% macro duckdb__each_entry(map) -%}
    unnest(map_entries({{ map }}))
{%- endmacro %}

{% macro spark__each_entry(map) -%}
    explode(map_entries({{ map }}))
{%- endmacro %}


{#- The rows of a group as a list without an order. -#}
{% macro list_of_rows(columns) -%}
    {{ return(adapter.dispatch('list_of_rows', 'gpu_ledger')(columns)) }}
{%- endmacro %}

{% macro duckdb__list_of_rows(columns) -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}{%- do fields.append(column ~ ' := ' ~ column) -%}{%- endfor -%}
    list(struct_pack({{ fields | join(', ') }}))
{%- endmacro %}

{% macro spark__list_of_rows(columns) -%}
    collect_list(struct({{ columns | join(', ') }}))
{%- endmacro %}
