{#-
    Times in the models are whole seconds since 1970-01-01T00:00:00Z. They are exact, do not depend on
    the time zone of a session, and compare three times as fast as times with a zone.
-#}

{% macro epoch_seconds(instant) -%}
    {{ return(adapter.dispatch('epoch_seconds', 'gpu_ledger')(instant)) }}
{%- endmacro %}

{% macro duckdb__epoch_seconds(instant) -%}
    (epoch_us({{ instant }}) // 1000000)
{%- endmacro %}

{% macro spark__epoch_seconds(instant) -%}
    unix_seconds({{ instant }})
{%- endmacro %}


{% macro epoch_milliseconds(instant) -%}
    {{ return(adapter.dispatch('epoch_milliseconds', 'gpu_ledger')(instant)) }}
{%- endmacro %}

{% macro duckdb__epoch_milliseconds(instant) -%}
    epoch_ms({{ instant }})
{%- endmacro %}

{% macro spark__epoch_milliseconds(instant) -%}
    unix_millis({{ instant }})
{%- endmacro %}


{% macro instant(second) -%}
    {{ return(adapter.dispatch('instant', 'gpu_ledger')(second)) }}
{%- endmacro %}

{% macro duckdb__instant(second) -%}
    make_timestamptz(cast({{ second }} as bigint) * 1000000)
{%- endmacro %}

{% macro spark__instant(second) -%}
    timestamp_seconds({{ second }})
{%- endmacro %}


{#- One row per hour that [started_second, ended_second) touches, as a set-returning expression. -#}
{% macro each_hour(started_second, ended_second) -%}
    {{ return(adapter.dispatch('each_hour', 'gpu_ledger')(started_second, ended_second)) }}
{%- endmacro %}

{% macro duckdb__each_hour(started_second, ended_second) -%}
    unnest(range((({{ started_second }}) // 3600) * 3600, {{ ended_second }}, 3600))
{%- endmacro %}

{#- Spark's sequence() counts down if its end is before its start; an empty interval has no hour. -#}
{% macro spark__each_hour(started_second, ended_second) -%}
    explode(
        case
            when (({{ started_second }}) div 3600) * 3600 < {{ ended_second }}
                then
                    sequence(
                        (({{ started_second }}) div 3600) * 3600, {{ ended_second }} - 1, 3600
                    )
            else cast(array() as array<bigint>)
        end
    )
{%- endmacro %}


{#- The second for "no end yet": the start of the year 3000. -#}
{% macro end_of_time() -%}
    32503680000
{%- endmacro %}
