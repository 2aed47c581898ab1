{#- The value of a label, '' where the series or object does not carry it. -#}
{% macro label(labels, name) -%}
    coalesce({{ labels }}['{{ name }}'], '')
{%- endmacro %}


{#- The first of several labels that has a value; exporters and their versions name them otherwise. -#}
{% macro first_label(names) -%}
    coalesce(
        {%- for name in names %}
            nullif(labels['{{ name }}'], ''),
        {%- endfor %}
        ''
    )
{%- endmacro %}
