{#-
    Exact integers of 128 bits. DuckDB divides DECIMALs into DOUBLEs, so the arithmetic is done in
    HUGEINT, and stored columns are DECIMAL(38,0): a HUGEINT would leave the database as a DOUBLE.
-#}

{% macro exact(number) -%}
    {{ return(adapter.dispatch('exact', 'gpu_ledger')(number)) }}
{%- endmacro %}

{% macro duckdb__exact(number) -%}
    cast({{ number }} as hugeint)
{%- endmacro %}

{% macro spark__exact(number) -%}
    cast({{ number }} as decimal(38, 0))
{%- endmacro %}


{% macro whole_quotient(numerator, denominator) -%}
    {{ return(adapter.dispatch('whole_quotient', 'gpu_ledger')(numerator, denominator)) }}
{%- endmacro %}

{% macro duckdb__whole_quotient(numerator, denominator) -%}
    (({{ numerator }}) // ({{ denominator }}))
{%- endmacro %}

{% macro spark__whole_quotient(numerator, denominator) -%}
    (({{ numerator }}) div ({{ denominator }}))
{%- endmacro %}


{#- A part as millionths of a whole, rounded down; 0 if the whole is 0. -#}
{% macro millionths(amount, whole) -%}
    cast(
        case
            when {{ whole }} > 0
                then {{ whole_quotient(exact(amount) ~ ' * 1000000', exact(whole)) }}
            else 0
        end
        as bigint
    )
{%- endmacro %}
