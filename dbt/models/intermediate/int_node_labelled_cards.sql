with

label_states as (

    select * from {{ ref('int_node_label_states') }}

),

card_counts as (

    select * from {{ ref('stg_devices__labelled_cards') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

label_intervals as (

    select
        label_states.cluster_id,
        label_states.node_name,
        card_counts.gpu_class,
        card_counts.labelled_card_count,
        greatest(label_states.valid_from_second, parameters.period_started_second)
            as started_second,
        least(label_states.valid_until_second, parameters.period_ended_second) as ended_second
    from label_states
    inner join card_counts
        on label_states.labels_sha256 = card_counts.labels_sha256
    cross join parameters

)

select *
from label_intervals
where started_second < ended_second
