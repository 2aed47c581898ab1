with

series as (

    select *
    from {{ ref('stg_thanos__series') }}
    where metric = 'kube_pod_init_container_info' and label_invalid = ''

),

named as (

    select distinct
        cluster_id,
        pod_uid,
        {{ first_label(['exported_container', 'container']) }} as container_name
    from series
    where {{ label('labels', 'restart_policy') }} = 'Always'

)

select * from named
