with

sampled as (

    select * from {{ ref('int_sampled_pods') }}

),

pods as (

    select * from {{ ref('int_pods') }}

),

numbered as (

    select
        sampled.cluster_id,
        sampled.series_key,
        sampled.metric,
        pods.pod_number
    from sampled
    inner join pods
        on
            sampled.cluster_id = pods.cluster_id
            and sampled.pod_uid = pods.pod_uid

)

select * from numbered
