-- The cost of each tenant, with the credits for outages.
with

costs as (

    select
        tenant,
        cost_nanos
    from marts.fct_charges
    where billing_period = $period and belongs_to = 'tenant'
    union all
    select
        tenant,
        credit_nanos as cost_nanos
    from marts.fct_outage_credits
    where billing_period = $period and belongs_to = 'tenant'

)

select
    tenant,
    cast(sum(cost_nanos) as decimal(38, 0)) as cost_nanos
from costs
group by all
order by all
