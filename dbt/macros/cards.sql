{#-
    Devices of one pool may lie on the same card: instances of MIG cards of one class share cards,
    replicas of one number share cards, and whole cards share nothing.
-#}
{% macro card_pool(device_kind, replica_count) -%}
    case
        when {{ device_kind }} in ('whole', 'passthrough') then 'card'
        when {{ device_kind }} in ('mig', 'mig_replica') then 'mig'
        else {{ device_kind }} || ' of ' || cast({{ replica_count }} as varchar)
    end
{%- endmacro %}


{#- No layout needs fewer cards than the larger of the two dimensions, rounded up. -#}
{% macro fewest_cards(compute_units, memory_units, compute_unit, memory_unit) -%}
    greatest(
        {{ whole_quotient(compute_units ~ ' + ' ~ compute_unit ~ ' - 1', compute_unit) }},
        {{ whole_quotient(memory_units ~ ' + ' ~ memory_unit ~ ' - 1', memory_unit) }}
    )
{%- endmacro %}
