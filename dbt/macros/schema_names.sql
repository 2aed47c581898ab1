{#- Schemas are named as they are: staging, intermediate, marts; one build is one file. -#}
{% macro generate_schema_name(custom_schema_name, node) -%}
    {{ custom_schema_name or target.schema }}
{%- endmacro %}
