{#- The value of a label, '' where the series or object does not carry it. -#}
{% macro label(labels, name) -%}
    coalesce({{ labels }}['{{ name }}'], '')
{%- endmacro %}
