{{ config(materialized='ephemeral') }}

with

tenant_hours as (

    select
        tenant,
        false as is_workload,
        '' as workload_kind,
        '' as workload_name,
        currency,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        sum(cost_nanos) as cost_nanos
    from {{ ref('fct_tenant_hours') }}
    where belongs_to = 'tenant'
    group by tenant, currency, hour_started_at

),

workload_hours as (

    select
        tenant,
        true as is_workload,
        workload_kind,
        workload_name,
        currency,
        {{ epoch_seconds('hour_started_at') }} as hour_second,
        sum(cost_nanos) as cost_nanos
    from {{ ref('fct_pod_hours') }}
    where belongs_to = 'tenant'
    group by tenant, workload_kind, workload_name, currency, hour_started_at

),

hours as (

    select * from tenant_hours
    union all
    select * from workload_hours

)

select
    *,
    dense_rank() over (
        order by tenant, is_workload, workload_kind, workload_name, currency
    ) as bearer_number
from hours
