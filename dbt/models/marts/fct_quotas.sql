with

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

runs as (

    select *
    from {{ ref('int_sample_runs') }}
    where metric = 'kube_resourcequota' and sample_quantity is not null

),

series as (

    select distinct
        cluster_id,
        series_key,
        {{ label('labels', 'namespace') }} as namespace,
        {{ label('labels', 'resourcequota') }} as quota_name,
        -- One spelling of the resource for both sources.
        replace({{ label('labels', 'resource') }}, 'requests.', '') as resource,
        {{ label('labels', 'type') }} as quota_type
    from {{ ref('stg_thanos__series') }}
    where metric = 'kube_resourcequota' and label_invalid = ''

),

journal as (

    select
        recorded_quotas.cluster_id,
        recorded_quotas.namespace,
        recorded_quotas.quota_name,
        replace(recorded_quotas.resource, 'requests.', '') as resource,
        recorded_quotas.observed_second,
        max(recorded_quotas.hard_count) as hard_count,
        max(recorded_quotas.used_count) as used_count,
        'kubernetes' as source
    from {{ ref('stg_kubernetes__quotas') }} as recorded_quotas
    inner join attempts
        on
            recorded_quotas.cluster_id = attempts.cluster_id
            and recorded_quotas.attempt_id = attempts.attempt_id
    group by
        recorded_quotas.cluster_id,
        recorded_quotas.namespace,
        recorded_quotas.quota_name,
        recorded_quotas.resource,
        recorded_quotas.observed_second

),

sampled_quotas as (

    select
        runs.cluster_id,
        series.namespace,
        series.quota_name,
        series.resource,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }} as observed_second,
        max(case when series.quota_type = 'hard' then runs.sample_quantity end) as hard_count,
        max(case when series.quota_type = 'used' then runs.sample_quantity end) as used_count,
        'thanos' as source
    from runs
    inner join series
        on
            runs.cluster_id = series.cluster_id
            and runs.series_key = series.series_key
    group by
        runs.cluster_id,
        series.namespace,
        series.quota_name,
        series.resource,
        {{ whole_quotient('runs.first_sampled_ms', 1000) }}

),

observations as (

    select * from journal
    union all
    select * from sampled_quotas

),

ranked_observations as (

    select
        *,
        min(source) over (partition by cluster_id, namespace, quota_name, resource) as best_source
    from observations

),

-- The journal, or else samples. A run of samples has one of the two numbers; the other one is the
-- last known value.
quota_states as (

    select
        cluster_id,
        namespace,
        quota_name,
        resource,
        observed_second as started_second,
        coalesce(
            lead(observed_second) over one_quota,
            {{ end_of_time() }}
        ) as ended_second,
        coalesce({{ last_known('hard_count') }} over so_far, 0) as hard_count,
        coalesce({{ last_known('used_count') }} over so_far, 0) as used_count
    from ranked_observations
    where source = best_source
    window
        one_quota as (
            partition by cluster_id, namespace, quota_name, resource order by observed_second
        ),
        so_far as (
            partition by cluster_id, namespace, quota_name, resource
            order by observed_second
            rows between unbounded preceding and current row
        )

),

hours as (

    select * from {{ ref('int_measured_hours') }}

),

holders as (

    select distinct
        cluster_id,
        namespace,
        resource_key
    from {{ ref('int_allocations') }}

),

holdings as (

    select
        allocations.cluster_id,
        allocations.namespace,
        allocations.resource_key,
        allocations.device_count,
        reconciled.started_second,
        reconciled.ended_second
    from {{ ref('int_allocations_reconciled') }} as reconciled
    inner join {{ ref('int_allocations') }} as allocations
        on
            reconciled.cluster_id = allocations.cluster_id
            and reconciled.pod_uid = allocations.pod_uid
    where
        reconciled.method in ('confirmed', 'lifecycle_only', 'samples_only')
        and reconciled.started_second < reconciled.ended_second

),

holding_changes as (

    select
        cluster_id,
        namespace,
        resource_key,
        started_second as event_second,
        device_count
    from holdings
    union all
    select
        cluster_id,
        namespace,
        resource_key,
        ended_second as event_second,
        -device_count as device_count
    from holdings
    union all
    -- A change by 0 at the start of each hour gives the hour a row with the count at its start.
    select
        holders.cluster_id,
        holders.namespace,
        holders.resource_key,
        hours.measured_from_second as event_second,
        0 as device_count
    from holders
    inner join hours
        on holders.cluster_id = hours.cluster_id

),

-- All changes of one second are added before the level is read, so that an end and a start in one
-- second do not overlap.
holding_levels as (

    select
        cluster_id,
        namespace,
        resource_key,
        {{ whole_quotient('event_second', 3600) }} * 3600 as hour_second,
        sum(device_count) over (
            partition by cluster_id, namespace, resource_key
            order by event_second
            range between unbounded preceding and current row
        ) as allocated_count
    from holding_changes

),

allocated_hours as (

    select
        cluster_id,
        namespace,
        resource_key,
        hour_second,
        cast(max(allocated_count) as bigint) as allocated_count_max
    from holding_levels
    group by cluster_id, namespace, resource_key, hour_second

),

resources as (

    select * from {{ ref('stg_devices__resources') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

-- If a namespace has several quotas of a resource, the smallest limit applies.
quota_hours as (

    select
        quota_states.cluster_id,
        quota_states.namespace,
        quota_states.resource,
        hours.hour_second,
        min(quota_states.hard_count) as hard_count,
        max(quota_states.used_count) as used_count
    from quota_states
    inner join hours
        on
            quota_states.cluster_id = hours.cluster_id
            and quota_states.started_second < hours.measured_until_second
            and hours.measured_from_second < quota_states.ended_second
    group by
        quota_states.cluster_id,
        quota_states.namespace,
        quota_states.resource,
        hours.hour_second

),

quotas as (

    select
        parameters.billing_period,
        quota_hours.namespace as tenant,
        quota_hours.cluster_id,
        quota_hours.resource,
        {{ instant('quota_hours.hour_second') }} as hour_started_at,
        quota_hours.hard_count,
        quota_hours.used_count,
        coalesce(allocated_hours.allocated_count_max, 0) as allocated_count_max
    from quota_hours
    cross join parameters
    left join resources
        on quota_hours.resource = resources.resource
    left join allocated_hours
        on
            quota_hours.cluster_id = allocated_hours.cluster_id
            and quota_hours.namespace = allocated_hours.namespace
            and resources.resource_key = allocated_hours.resource_key
            and quota_hours.hour_second = allocated_hours.hour_second

)

select * from quotas
