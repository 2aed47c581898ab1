{#-
    The price in 10⁻⁹ currency units: device-seconds × weight × rate ÷ 3600, rounded once, half-even.
    No other SQL prices or rounds an amount. `domain.money.price_nanos` is the same calculation in
    Python; a test gives both the same random input.
-#}
{% macro price_nanos(device_seconds, weight_numerator, weight_denominator, rate_nanos_per_hour) -%}
    {%- set numerator -%}
        ({{ exact(device_seconds) }} * {{ exact(weight_numerator) }} * {{ exact(rate_nanos_per_hour) }})
    {%- endset -%}
    {%- set denominator -%} ({{ exact(weight_denominator) }} * 3600) {%- endset -%}
    cast({{ divide_rounding_half_even(numerator, denominator) }} as decimal(38, 0))
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
