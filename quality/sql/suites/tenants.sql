-- One row per tenant, and one for all of them: counted and charged device-seconds and costs.
-- Amounts are text, because a data frame has no exact type for them.
with

counted_sums as (

    select
        tenant,
        belongs_to,
        sum(billable_seconds * device_count) as seconds,
        sum(cost_nanos) as nanos
    from marts.fct_pod_hours
    where billing_period = $period
    group by tenant, belongs_to

),

charged_sums as (

    select
        tenant,
        belongs_to,
        sum(device_seconds) as seconds,
        sum(cost_nanos) as nanos
    from marts.fct_charges
    where billing_period = $period
    group by tenant, belongs_to

),

-- A tenant that is only on one side has 0 on the other side.
sides as (

    select
        coalesce(counted_sums.tenant, charged_sums.tenant) as tenant,
        coalesce(counted_sums.belongs_to, charged_sums.belongs_to) as belongs_to,
        coalesce(counted_sums.seconds, 0) as counted_seconds,
        coalesce(charged_sums.seconds, 0) as charged_seconds,
        coalesce(counted_sums.nanos, 0) as counted_nanos,
        coalesce(charged_sums.nanos, 0) as charged_nanos
    from counted_sums
    full outer join charged_sums
        on
            counted_sums.tenant = charged_sums.tenant
            and counted_sums.belongs_to = charged_sums.belongs_to

),

-- The row of all tenants exists in a month without use too: a check without a row proves nothing.
tenants as (

    select * from sides
    union all
    select
        '(all)' as tenant,
        'provider' as belongs_to,
        coalesce(sum(counted_seconds), 0) as counted_seconds,
        coalesce(sum(charged_seconds), 0) as charged_seconds,
        coalesce(sum(counted_nanos), 0) as counted_nanos,
        coalesce(sum(charged_nanos), 0) as charged_nanos
    from sides

)

select
    tenant,
    belongs_to,
    cast(counted_seconds as varchar) as counted_seconds,
    cast(charged_seconds as varchar) as charged_seconds,
    cast(counted_nanos as varchar) as counted_nanos,
    cast(charged_nanos as varchar) as charged_nanos
from tenants
order by tenant, belongs_to
