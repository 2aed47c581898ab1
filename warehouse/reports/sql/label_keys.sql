-- The keys of all labels that pods of some periods have.
select distinct label_key
from dim_pod_labels
where list_contains($periods, billing_period)
order by all
