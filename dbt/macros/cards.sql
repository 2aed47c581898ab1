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
