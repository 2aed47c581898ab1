with

intervals as (

    select * from {{ ref('stg_decisions__tenant_intervals') }}

),

budgets as (

    select * from {{ ref('dim_budgets') }}
    where is_of_tenant

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

tenants as (

    select
        parameters.billing_period,
        intervals.namespace as tenant,
        intervals.belongs_to,
        {{ instant('intervals.valid_from_second') }} as valid_from,
        {{ instant('intervals.valid_until_second') }} as valid_until,
        coalesce(budgets.currency, '') as budget_currency,
        cast(coalesce(budgets.budget_nanos, 0) as decimal(38, 0)) as budget_nanos,
        budgets.tenant is not null as has_budget
    from intervals
    cross join parameters
    left join budgets
        on intervals.namespace = budgets.tenant

)

select * from tenants
