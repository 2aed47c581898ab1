{{ config(materialized='ephemeral') }}

with

observed as (

    select
        labels_sha256,
        node_labels as labels
    from {{ ref('stg_kubernetes__nodes') }}

),

sampled as (

    select
        labels_sha256,
        labels
    from {{ ref('stg_thanos__series') }}
    where metric = 'kube_node_labels' and label_invalid = ''

),

seen as (

    select * from observed
    union all
    select * from sampled

),

distinct_sets as (

    select
        labels_sha256,
        any_value(labels) as labels
    from seen
    group by labels_sha256

),

texts as (

    select
        labels_sha256,
        {{ map_as_json('labels') }} as labels_text
    from distinct_sets

)

select * from texts
