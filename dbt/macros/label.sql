{#- The value of a label; '' if the series or object does not have it. -#}
{% macro label(labels, name) -%}
    coalesce({{ labels }}['{{ name }}'], '')
{%- endmacro %}


{#- The first of several labels with a value: exporters and their versions have different names. -#}
{% macro first_label(names) -%}
    coalesce(
        {%- for name in names %}
            nullif(labels['{{ name }}'], ''),
        {%- endfor %}
        ''
    )
{%- endmacro %}


{#-
    The syntax of names in Kubernetes. Each macro is true for a value that no API server accepts; an
    empty value is a missing label and not an invalid label.
-#}
{% macro is_invalid_dns_label(value) -%}
    (length({{ value }}) > 63 or {{ has_match(value, "'[^a-z0-9-]|^-|-$'") }})
{%- endmacro %}

{% macro is_invalid_dns_subdomain(value) -%}
    (
        length({{ value }}) > 253
        or {{ has_match(value, "'[^a-z0-9.-]|^[.-]|[.-]$|[.][.-]|-[.]'") }}
    )
{%- endmacro %}

{% macro is_invalid_label_value(value) -%}
    (length({{ value }}) > 63 or {{ has_match(value, "'[^A-Za-z0-9_.-]|^[_.-]|[_.-]$'") }})
{%- endmacro %}


{#- Whether a part of a text matches a quoted pattern. A pattern has no backslash, which DuckDB and
    Spark read differently. -#}
{% macro has_match(text, pattern) -%}
    {{ return(adapter.dispatch('has_match', 'gpu_ledger')(text, pattern)) }}
{%- endmacro %}

{% macro duckdb__has_match(text, pattern) -%}
    regexp_matches({{ text }}, {{ pattern }})
{%- endmacro %}

{% macro spark__has_match(text, pattern) -%}
    {{ text }} rlike {{ pattern }}
{%- endmacro %}


{#- Whether a label that was copied from an object (`label_…`) has a value that no API server accepts. -#}
{% macro has_invalid_copied_label(labels) -%}
    {{ has_match(
        map_as_json(labels),
        '\'"label_[^"]*":"([^"]*[^A-Za-z0-9_."-]|[_.-]|[^"]*[_.-]"|[^"]{64})\''
    ) }}
{%- endmacro %}
