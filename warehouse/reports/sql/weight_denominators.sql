-- The denominators of all weights, to calculate a common denominator.
select distinct weight_denominator from fct_pod_hours
