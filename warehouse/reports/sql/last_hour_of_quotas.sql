-- The newest hour with a quota.
select max(hour_started_at) as newest from fct_quotas
