with

source as (

    select * from {{ source('raw', 'thanos_series') }}

),

renamed as (

    select
        cluster_id,
        attempt_id,
        series_key,
        metric,
        labels_sha256,
        labels,
        -- UID and name are columns of the source if the UID is a UUID; otherwise they are labels.
        coalesce(uid, {{ label('labels', 'uid') }}) as pod_uid,
        coalesce(pod, {{ label('labels', 'pod') }}) as pod_name
    from source

),

-- Prometheus accepts any text as a label value; these labels must have names that Kubernetes
-- accepts.
validated as (

    select
        *,
        case
            when metric not like 'kube_%' then ''
            when {{ is_invalid_label_value('pod_uid') }} then 'uid'
            when {{ is_invalid_dns_subdomain('pod_name') }} then 'pod'
            when {{ is_invalid_dns_label(label('labels', 'namespace')) }} then 'namespace'
            when {{ is_invalid_dns_subdomain(label('labels', 'node')) }} then 'node'
            when
                metric in ('kube_node_labels', 'kube_pod_labels')
                and {{ has_invalid_copied_label('labels') }}
                then 'label_*'
            else ''
        end as label_invalid
    from renamed

)

select * from validated
