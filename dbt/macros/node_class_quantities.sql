{#- What a node can have of a GPU class at an instant; only the codes are wider than a BIGINT. -#}
{% macro node_class_quantities() -%}
    {{ return([
        'running_cards', 'capacity_cards', 'allocatable_cards', 'labelled_cards',
        'running_code', 'offered_code', 'allocatable_code',
        'running_compute', 'running_memory', 'held_compute', 'held_memory',
        'offered_compute', 'offered_memory', 'unhealthy_compute', 'unhealthy_memory',
        'unmeasured',
    ]) }}
{%- endmacro %}


{#- A column for each quantity: these amounts, and nothing of the others. -#}
{% macro quantity_columns(amounts) -%}
    {% for quantity in node_class_quantities() -%}
        {%- set amount = amounts.get(quantity, '0') -%}
        {{ exact(amount) if quantity.endswith('_code') else 'cast(' ~ amount ~ ' as bigint)' }}
        as {{ quantity }}{{ ', ' if not loop.last }}
    {%- endfor %}
{%- endmacro %}
