{#- The metrics whose samples are counted: each sample is read, or a row of fct_refused_samples. -#}
{% macro counted_metrics() -%}
    (
        'kube_pod_container_resource_requests',
        'kube_pod_init_container_resource_requests',
        'kube_pod_status_phase',
        'kube_pod_info',
        'kube_node_status_capacity',
        'kube_node_status_allocatable'
    )
{%- endmacro %}
