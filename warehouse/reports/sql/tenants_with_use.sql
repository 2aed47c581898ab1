-- The tenants that have a row in a window.
select distinct tenant
from fct_pod_hours
where
    belongs_to = 'tenant'
    and hour_started_at >= $started
    and hour_started_at < $ended
order by tenant
