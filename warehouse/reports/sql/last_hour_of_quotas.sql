-- The newest hour in which any quota was seen.
select max(hour_started_at) as newest from fct_quotas
