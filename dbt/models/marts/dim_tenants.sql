with

spans as (

    select * from {{ ref('stg_decisions__tenant_spans') }}

),

budgets as (

    select * from {{ ref('stg_decisions__budgets') }}

),

parameters as (

    select * from {{ ref('stg_parameters') }}

),

tenants as (

    select
        parameters.billing_period,
        spans.namespace as tenant,
        spans.belongs_to,
        {{ instant('spans.valid_from_second') }} as valid_from,
        {{ instant('spans.valid_until_second') }} as valid_until,
        coalesce(budgets.currency, '') as budget_currency,
        cast(coalesce(budgets.budget_nanos, 0) as decimal(38, 0)) as budget_nanos,
        budgets.tenant is not null as has_budget
    from spans
    cross join parameters
    left join budgets
        on spans.namespace = budgets.tenant

)

select * from tenants
