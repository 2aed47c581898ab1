{#- The values of these columns identify one row, and none of them is NULL. -#}
{% test unique_key(model, columns) %}

select
    {{ columns | join(',\n    ') }},
    count(*) as row_count
from {{ model }}
group by {{ columns | join(', ') }}
having
    count(*) > 1
    {% for column in columns %}
        or {{ column }} is null
    {% endfor %}

{% endtest %}
