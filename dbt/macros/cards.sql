{#-
    How many devices of a resource one card can have, where each is an equal part of a card: a
    whole card is one, n replicas or partitions are n. MIG instances are not equal parts (0): which
    of them lie on one card is a question of layouts.
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


{#- Whether a device is a MIG slice or a replica of one: which card it lies on is not counted. -#}
{% macro is_slice() -%}
    (devices_per_card = 0 and mig_profile <> '')
{%- endmacro %}


{#- On what a number of cards rests: in the order of the words the weakest comes last, and where
    nothing runs nothing is needed. -#}
{% macro weakest_how_known(how_known) -%}
    coalesce(max(nullif({{ how_known }}, 'nothing')), 'nothing')
{%- endmacro %}
