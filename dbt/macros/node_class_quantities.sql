{#- What a node can have of a GPU class at an instant: what is used of it, and what there is. -#}
{% macro used_quantities() -%}
    {{ return([
        'running_cards', 'running_code',
        'running_compute', 'running_memory', 'held_compute', 'held_memory',
    ]) }}
{%- endmacro %}

{% macro offered_quantities() -%}
    {{ return([
        'capacity_cards', 'allocatable_cards', 'labelled_cards', 'offered_code', 'allocatable_code',
        'offered_compute', 'offered_memory', 'unhealthy_compute', 'unhealthy_memory', 'unmeasured',
    ]) }}
{%- endmacro %}


{#- A column for each quantity: these amounts, and nothing of the others. Codes are wider. -#}
{% macro quantity_columns(quantities, amounts) -%}
    {% for quantity in quantities -%}
        {%- set amount = amounts.get(quantity, '0') -%}
        {{ exact(amount) if quantity.endswith('_code') else 'cast(' ~ amount ~ ' as bigint)' }}
        as {{ quantity }}{{ ', ' if not loop.last }}
    {%- endfor %}
{%- endmacro %}
