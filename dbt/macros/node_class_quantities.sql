{#- The quantities of a GPU class on a node that do not depend on its use. -#}
{% macro offered_quantities() -%}
    {{ return([
        'capacity_cards', 'allocatable_cards', 'labelled_cards', 'offered_compute', 'offered_memory',
        'unhealthy_compute', 'unhealthy_memory', 'unmeasured',
    ]) }}
{%- endmacro %}


{#- A column for each quantity: the amount of the quantity, or 0. -#}
{% macro quantity_columns(quantities, amounts) -%}
    {% for quantity in quantities -%}
        {%- set amount = amounts.get(quantity, '0') -%}
        cast({{ amount }} as bigint)
        as {{ quantity }}{{ ', ' if not loop.last }}
    {%- endfor %}
{%- endmacro %}
