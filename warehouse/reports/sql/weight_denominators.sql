-- The denominators of all weights, for a common one.
select distinct weight_denominator from fct_pod_hours
