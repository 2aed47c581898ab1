-- What is the hourly cost of each pod?
--
-- The cost of the billed time of each pod divided by its hours, rounded down to 10⁻⁹; pods of
-- tenants that were billed in the period. `gpu-ledger prune list` multiplies it by the hours of a
-- stop.
--
-- param period = newest: the billing period, such as 2026-10
-- empty: No pod of a tenant was billed in this period.
with

held as (

    select
        cluster_id,
        tenant,
        pod_uid,
        resource,
        currency,
        -- `//` divides integers only.
        cast(sum(cost_nanos) as hugeint) as cost_nanos,
        cast(sum(billable_seconds) as hugeint) as billable_seconds
    from fct_pod_hours
    where billing_period = $period and belongs_to = 'tenant'
    group by all

)

select
    tenant,
    cluster_id,
    pod_uid,
    cast(sum(cost_nanos * 3600 // billable_seconds) as decimal(38, 0)) as hourly_cost_nanos,
    currency
from held
where billable_seconds > 0
group by all
order by tenant, cluster_id, pod_uid
