-- Fault E09: the models themselves refuse a period whose invoices are sealed.
select parameters.billing_period
from {{ ref('stg_parameters') }} as parameters
inner join {{ ref('stg_closed_periods') }} as closed_periods
    on parameters.billing_period = closed_periods.billing_period
