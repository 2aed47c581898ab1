-- GpuBudgets that do not count because of a problem, with the cluster whose budget counts instead.
select
    budgets.cluster_id,
    budgets.tenant,
    budgets.budget_name,
    budgets.state,
    budgets.invalid_reason,
    budgets.currency,
    budgets.budget_nanos,
    coalesce(others.cluster_id, '') as other_cluster_id,
    coalesce(others.currency, '') as other_currency,
    coalesce(others.budget_nanos, 0) as other_nanos
from marts.dim_budgets as budgets
left join marts.dim_budgets as others
    on
        budgets.state = 'differs'
        and budgets.billing_period = others.billing_period
        and budgets.tenant = others.tenant
        and budgets.budget_name = others.budget_name
        and others.source = 'cluster'
        and others.state in ('counted', 'replaced', 'too_many')
where
    budgets.billing_period = $period
    and budgets.state in ('differs', 'invalid', 'other_currency', 'too_many')
order by budgets.tenant, budgets.budget_name, budgets.cluster_id
