with

parameters as (

    select * from {{ ref('stg_parameters') }}

),

attempts as (

    select * from {{ ref('int_journal_attempts') }}

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

hubs as (

    select distinct cluster_id
    from {{ ref('stg_decisions__clusters') }}
    where is_hub

),

observations as (

    select
        seen.*,
        row_number() over (
            partition by seen.cluster_id, seen.namespace, seen.budget_name
            order by seen.observed_second desc, seen.journal_position desc
        ) as newest_first
    from {{ ref('stg_kubernetes__budgets') }} as seen
    inner join attempts
        on
            seen.cluster_id = attempts.cluster_id
            and seen.attempt_id = attempts.attempt_id
    inner join windows
        on
            seen.cluster_id = windows.cluster_id
            and seen.observed_second >= windows.window_started_second
            and seen.observed_second < windows.window_ended_second

),

-- The last observation of each GpuBudget in the period.
objects as (

    select
        observations.namespace as tenant,
        observations.budget_name,
        observations.cluster_id,
        observations.budget_period,
        observations.created_second,
        observations.invalid_reason,
        hubs.cluster_id is not null as is_hub,
        parameters.currency as priced_currency,
        coalesce(observations.currency, '') as currency,
        coalesce(observations.budget_nanos, 0) as budget_nanos,
        coalesce(observations.workload_kind, '') as workload_kind,
        coalesce(observations.workload_name, '') as workload_name,
        coalesce(observations.label_key, '') as label_key,
        coalesce(observations.label_value, '') as label_value,
        coalesce(observations.actual_steps, '') as actual_steps,
        coalesce(observations.forecast_steps, '') as forecast_steps
    from observations
    cross join parameters
    left join hubs
        on observations.cluster_id = hubs.cluster_id
    where
        observations.newest_first = 1
        and not observations.is_deleted
        and (
            observations.invalid_reason <> ''
            or observations.budget_period in ('', parameters.billing_period)
        )

),

valid_objects as (

    select
        *,
        row_number() over (
            partition by tenant, budget_name
            order by case when is_hub then 0 else 1 end, created_second, cluster_id
        ) as choice
    from objects
    where invalid_reason = '' and priced_currency in ('', currency)

),

-- If several clusters have a GpuBudget of one name, the first choice counts.
chosen_budgets as (

    select
        *,
        max(budget_period) over (
            partition by tenant, workload_kind, workload_name, label_key, label_value
        ) as narrowest_period
    from valid_objects
    where choice = 1

),

numbered_budgets as (

    select
        *,
        row_number() over (partition by tenant order by budget_name) as budget_number
    from chosen_budgets
    where budget_period = narrowest_period

),

compared_budgets as (

    select
        objects.*,
        chosen_budgets.cluster_id as chosen_cluster_id,
        chosen_budgets.narrowest_period,
        numbered_budgets.budget_number,
        objects.budget_period = chosen_budgets.budget_period
        and objects.currency = chosen_budgets.currency
        and objects.budget_nanos = chosen_budgets.budget_nanos
        and objects.workload_kind = chosen_budgets.workload_kind
        and objects.workload_name = chosen_budgets.workload_name
        and objects.label_key = chosen_budgets.label_key
        and objects.label_value = chosen_budgets.label_value
        and objects.actual_steps = chosen_budgets.actual_steps
        and objects.forecast_steps = chosen_budgets.forecast_steps as is_same
    from objects
    left join chosen_budgets
        on
            objects.tenant = chosen_budgets.tenant
            and objects.budget_name = chosen_budgets.budget_name
    left join numbered_budgets
        on
            objects.tenant = numbered_budgets.tenant
            and objects.budget_name = numbered_budgets.budget_name

),

budgets as (

    select
        'decisions' as source,
        tenant,
        budget_name,
        '' as cluster_id,
        'counted' as state,
        '' as invalid_reason,
        currency,
        budget_nanos,
        workload_kind,
        workload_name,
        label_key,
        label_value,
        actual_steps,
        forecast_steps
    from {{ ref('stg_decisions__budgets') }}
    union all
    select
        'cluster' as source,
        tenant,
        budget_name,
        cluster_id,
        case
            when invalid_reason <> '' then 'invalid'
            when priced_currency not in ('', currency) then 'other_currency'
            when cluster_id <> chosen_cluster_id and is_same then 'repeated'
            when cluster_id <> chosen_cluster_id then 'differs'
            when budget_period <> narrowest_period then 'replaced'
            -- A tenant has at most 50 budgets, because each budget has up to 20 alerts.
            when budget_number > 50 then 'too_many'
            else 'counted'
        end as state,
        invalid_reason,
        currency,
        budget_nanos,
        workload_kind,
        workload_name,
        label_key,
        label_value,
        actual_steps,
        forecast_steps
    from compared_budgets

),

-- The budget of a whole tenant is that of the provider, or else the tenant's smallest one.
ranked_budgets as (

    select
        *,
        row_number() over (
            partition by tenant
            order by
                case
                    when state = 'counted' and workload_kind = '' and label_key = '' then 0
                    else 1
                end,
                case when source = 'decisions' then 0 else 1 end,
                budget_nanos,
                budget_name
        ) as best_first
    from budgets

)

select
    parameters.billing_period,
    ranked_budgets.tenant,
    ranked_budgets.source,
    ranked_budgets.budget_name,
    ranked_budgets.cluster_id,
    ranked_budgets.state,
    ranked_budgets.invalid_reason,
    ranked_budgets.currency,
    ranked_budgets.budget_nanos,
    ranked_budgets.workload_kind,
    ranked_budgets.workload_name,
    ranked_budgets.label_key,
    ranked_budgets.label_value,
    ranked_budgets.actual_steps,
    ranked_budgets.forecast_steps,
    ranked_budgets.best_first = 1
    and ranked_budgets.state = 'counted'
    and ranked_budgets.workload_kind = ''
    and ranked_budgets.label_key = '' as is_of_tenant
from ranked_budgets
cross join parameters
