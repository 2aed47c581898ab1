{#-
    The number of devices of a resource on one card, if each device is an equal part of the card: 1
    for whole cards, n for n replicas or partitions. It is 0 for MIG instances, which are not equal
    parts: their layouts decide which of them fit on one card.
-#}
{% macro devices_per_card(device_kind, compute_share_numerator, compute_share_denominator) -%}
    case
        when {{ device_kind }} in ('mig', 'mig_replica', 'unclassified') then 0
        else
            {{ whole_quotient(
                compute_share_denominator, 'greatest(' ~ compute_share_numerator ~ ', 1)'
            ) }}
    end
{%- endmacro %}


{#- Whether a device is a MIG slice or a replica of a slice: counting devices does not count cards. -#}
{% macro is_slice() -%}
    (devices_per_card = 0 and mig_profile <> '')
{%- endmacro %}


{#- The weakest evidence of a number of cards: the last word in alphabetical order. `nothing`, for
    time without an allocation, does not count. -#}
{% macro weakest_how_known(how_known) -%}
    coalesce(max(nullif({{ how_known }}, 'nothing')), 'nothing')
{%- endmacro %}
