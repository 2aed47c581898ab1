{#-
    The one macro that prices, and the one place that rounds: device-seconds × weight × rate ÷ 3600,
    exact until it is rounded once, half-even. `domain.money.price_nanos` is its twin in Python; a
    test gives both the same random input.
-#}
{% macro price_nanos(device_seconds, weight_numerator, weight_denominator, rate_nanos_per_hour) -%}
    {%- set numerator = priced_numerator(device_seconds, weight_numerator, rate_nanos_per_hour) -%}
    {%- set denominator = priced_denominator(weight_denominator) -%}
    cast({{ divide_rounding_half_even(numerator, denominator) }} as decimal(38, 0))
{%- endmacro %}


{#- What is divided by `priced_denominator` to give nanos; kept apart for the apportionment. -#}
{% macro priced_numerator(device_seconds, weight_numerator, rate_nanos_per_hour) -%}
    ({{ exact(device_seconds) }} * {{ exact(weight_numerator) }} * {{ exact(rate_nanos_per_hour) }})
{%- endmacro %}


{% macro priced_denominator(weight_denominator) -%}
    ({{ exact(weight_denominator) }} * 3600)
{%- endmacro %}


{% macro divide_rounding_half_even(numerator, denominator) -%}
    (
        {{ whole_quotient(numerator, denominator) }}
        + case
            when 2 * ({{ numerator }} % {{ denominator }}) > {{ denominator }} then 1
            when
                2 * ({{ numerator }} % {{ denominator }}) = {{ denominator }}
                and {{ whole_quotient(numerator, denominator) }} % 2 = 1
                then 1
            else 0
        end
    )
{%- endmacro %}
