{#- A schema has the name of its layer (staging, intermediate, marts), without the name of a target. -#}
{% macro generate_schema_name(custom_schema_name, node) -%}
    {{ custom_schema_name or target.schema }}
{%- endmacro %}
