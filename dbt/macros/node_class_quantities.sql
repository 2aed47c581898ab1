{#- What there can be of a GPU class on a node at an instant, whatever is used of it. -#}
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
