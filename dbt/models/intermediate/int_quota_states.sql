{{ config(materialized='ephemeral') }}

with

observed as (

    select * from {{ ref('int_quotas_observed') }}

),

ranked as (

    select
        *,
        min(source) over (partition by cluster_id, namespace, quota_name, resource) as best_source
    from observed

),

-- A run of samples may carry only one of the two numbers; the other one still holds.
states as (

    select
        cluster_id,
        namespace,
        quota_name,
        resource,
        observed_second as started_second,
        coalesce(
            lead(observed_second) over quotas,
            {{ end_of_time() }}
        ) as ended_second,
        coalesce({{ last_known('hard_count') }} over so_far, 0) as hard_count,
        coalesce({{ last_known('used_count') }} over so_far, 0) as used_count
    from ranked
    where source = best_source
    window
        quotas as (
            partition by cluster_id, namespace, quota_name, resource order by observed_second
        ),
        so_far as (
            partition by cluster_id, namespace, quota_name, resource
            order by observed_second
            rows between unbounded preceding and current row
        )

)

select * from states
