-- Pod hours with an uncertain start or end in clusters that expect a journal.
select count(*) as pod_hour_count
from fct_pod_hours as pod_hours
inner join dim_clusters as clusters
    on
        pod_hours.billing_period = clusters.billing_period
        and pod_hours.cluster_id = clusters.cluster_id
where
    pod_hours.billing_period = $period
    and pod_hours.uncertainty_seconds > 0
    and clusters.expects_journal
