with

used as (

    select * from {{ ref('int_device_spans') }}

),

offered as (

    select * from {{ ref('int_capacity_spans') }}

),

labelled as (

    select * from {{ ref('int_node_labelled_cards') }}

),

card_changes as (

    select * from {{ ref('int_card_changes') }}

),

unhealthy_changes as (

    select * from {{ ref('int_unhealthy_changes') }}

),

unmeasured as (

    select * from {{ ref('int_unmeasured_stretches') }}

),

node_classes as (

    select * from {{ ref('int_node_classes') }}

),

-- Every quantity that a node has of a class for some time, one row per quantity.
quantities as (

    {% for state in ['running', 'held'] %}
        {% for dimension in ['compute', 'memory'] %}
            select
                node_class_number,
                started_second,
                ended_second,
                '{{ state }}_{{ dimension }}' as quantity,
                {{ exact(dimension ~ '_units') }} as amount
            from used
            where allocation_state = '{{ state }}'
            union all
        {% endfor %}
    {% endfor %}
    {% for dimension in ['compute', 'memory'] %}
        select
            node_class_number,
            started_second,
            ended_second,
            'offered_{{ dimension }}' as quantity,
            {{ exact('capacity_count * ' ~ dimension ~ '_units_each') }} as amount
        from offered
        union all
    {% endfor %}
    select
        node_class_number,
        started_second,
        ended_second,
        'running_code' as quantity,
        {{ exact('device_count * code_multiplier') }} as amount
    from used
    where allocation_state = 'running' and code_multiplier > 0
    union all
    select
        node_class_number,
        started_second,
        ended_second,
        'offered_code' as quantity,
        {{ exact('capacity_count * code_multiplier') }} as amount
    from offered
    where code_multiplier > 0
    union all
    select
        node_class_number,
        started_second,
        ended_second,
        'allocatable_code' as quantity,
        {{ exact('allocatable_count * code_multiplier') }} as amount
    from offered
    where code_multiplier > 0
    union all
    select
        node_classes.node_class_number,
        labelled.started_second,
        labelled.ended_second,
        'labelled_cards' as quantity,
        {{ exact('labelled.labelled_card_count') }} as amount
    from labelled
    inner join node_classes
        on
            labelled.cluster_id = node_classes.cluster_id
            and labelled.node_name = node_classes.node_name
            and labelled.gpu_class = node_classes.gpu_class
    union all
    select
        node_classes.node_class_number,
        unmeasured.started_second,
        unmeasured.ended_second,
        'unmeasured' as quantity,
        {{ exact(1) }} as amount
    from unmeasured
    inner join node_classes
        on unmeasured.cluster_id = node_classes.cluster_id

),

events as (

    select
        node_class_number,
        started_second as event_second,
        quantity,
        amount
    from quantities
    union all
    select
        node_class_number,
        ended_second as event_second,
        quantity,
        -amount as amount
    from quantities
    {% for quantity in ['running', 'capacity', 'allocatable'] %}
        union all
        select
            node_class_number,
            event_second,
            '{{ quantity }}_cards' as quantity,
            {{ exact(quantity ~ '_change') }} as amount
        from card_changes
        where {{ quantity }}_change <> 0
    {% endfor %}
    {% for dimension in ['compute', 'memory'] %}
        union all
        select
            node_class_number,
            event_second,
            'unhealthy_{{ dimension }}' as quantity,
            {{ exact(dimension ~ '_units') }} as amount
        from unhealthy_changes
        where {{ dimension }}_units <> 0
    {% endfor %}

)

select * from events
