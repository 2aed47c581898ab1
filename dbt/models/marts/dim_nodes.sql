with

label_states as (

    select * from {{ ref('int_node_label_states') }}

),

labelled_cards as (

    select
        labels_sha256,
        max(gpu_class) as gpu_class,
        max(labelled_card_count) as labelled_card_count
    from {{ ref('stg_devices__labelled_cards') }}
    group by labels_sha256

),

label_sets as (

    select
        labels_sha256,
        node_labels as labels
    from {{ ref('stg_kubernetes__nodes') }}
    union all
    select
        labels_sha256,
        labels
    from {{ ref('stg_thanos__series') }}
    where metric = 'kube_node_labels' and label_invalid = ''

),

label_texts as (

    select
        labels_sha256,
        {{ map_as_json('any_value(labels)') }} as labels_text
    from label_sets
    group by labels_sha256

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

nodes as (

    select
        parameters.billing_period,
        label_states.cluster_id,
        label_states.node_name,
        {{ instant('greatest(label_states.valid_from_second, parameters.period_started_second)') }}
            as valid_from,
        {{ instant('least(label_states.valid_until_second, parameters.period_ended_second)') }}
            as valid_until,
        label_states.source,
        coalesce(labelled_cards.gpu_class, '') as labelled_gpu_class,
        coalesce(labelled_cards.labelled_card_count, 0) as labelled_card_count,
        coalesce(label_texts.labels_text, '{}') as labels_text,
        label_states.labels_sha256
    from label_states
    cross join parameters
    left join labelled_cards
        on label_states.labels_sha256 = labelled_cards.labels_sha256
    left join label_texts
        on label_states.labels_sha256 = label_texts.labels_sha256
    where
        label_states.valid_from_second < parameters.period_ended_second
        and label_states.valid_until_second > parameters.period_started_second

)

select * from nodes
