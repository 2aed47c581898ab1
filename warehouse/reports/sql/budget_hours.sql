-- The cost of each hour that counts towards each budget.
with

budgets as (

    select unnest($budgets, recursive := true)

)

select
    budgets.budget_number,
    pod_hours.hour_started_at,
    sum(pod_hours.cost_nanos) as cost_nanos
from budgets
inner join fct_pod_hours as pod_hours
    on
        budgets.tenant = pod_hours.tenant
        and budgets.currency = pod_hours.currency
left join dim_pod_labels as labels
    on
        pod_hours.billing_period = labels.billing_period
        and pod_hours.cluster_id = labels.cluster_id
        and pod_hours.pod_uid = labels.pod_uid
        and budgets.label_key = labels.label_key
where
    pod_hours.billing_period = $period
    and pod_hours.belongs_to = 'tenant'
    and (budgets.workload_kind = '' or budgets.workload_kind = pod_hours.workload_kind)
    and (budgets.workload_kind = '' or budgets.workload_name = pod_hours.workload_name)
    and (budgets.label_key = '' or budgets.label_value = labels.label_value)
group by budgets.budget_number, pod_hours.hour_started_at
