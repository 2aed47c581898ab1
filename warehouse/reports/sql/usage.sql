-- The device-seconds, weighted device-seconds and cost of a window, per tenant, currency and the
-- requested columns; all other columns are NULL. If the window cuts an hour, only its seconds
-- inside the window count, with their part of the cost. This part is the cost until the end of the
-- window minus the cost until its start, both rounded down, so that adjoining windows add up to the
-- hour.
with

names as (

    select
        cluster_id,
        max(cluster_name) as cluster_name
    from dim_clusters
    group by all

),

hours as (

    select
        *,
        case
            when hour_started_at >= $started then 0
            else
                greatest(
                    0,
                    least(billable_seconds, date_diff('second', segment_started_at, $started))
                )
        end as seconds_before,
        case
            when hour_started_at + interval 1 hour <= $ended then billable_seconds
            else
                greatest(
                    0,
                    least(billable_seconds, date_diff('second', segment_started_at, $ended))
                )
        end as seconds_until
    from fct_pod_hours
    where
        hour_started_at + interval 1 hour > $started
        and hour_started_at < $ended
        and belongs_to = $belongs_to
        and ($tenant = '' or tenant = $tenant)

),

pod_hours as (

    select
        *,
        seconds_until - seconds_before as used_seconds,
        case
            when seconds_until - seconds_before = billable_seconds
                then cast(cost_nanos as hugeint)
            else
                cast(cost_nanos as hugeint) * seconds_until // billable_seconds
                - cast(cost_nanos as hugeint) * seconds_before // billable_seconds
        end as used_nanos
    from hours
    where
        seconds_until > seconds_before
        or (hour_started_at >= $started and hour_started_at + interval 1 hour <= $ended)

)

select
    pod_hours.tenant,
    case
        when list_contains($columns, 'cluster_name')
            then coalesce(names.cluster_name, pod_hours.cluster_id)
    end as cluster_name,
    case
        when list_contains($columns, 'workload_kind')
            then pod_hours.workload_kind
    end as workload_kind,
    case
        when list_contains($columns, 'workload_name')
            then pod_hours.workload_name
    end as workload_name,
    case when list_contains($columns, 'pod_name') then pod_hours.pod_name end as pod_name,
    case when list_contains($columns, 'pod_uid') then pod_hours.pod_uid end as pod_uid,
    case when list_contains($columns, 'gpu_class') then pod_hours.gpu_class end as gpu_class,
    case when list_contains($columns, 'mig_profile') then pod_hours.mig_profile end as mig_profile,
    case
        when list_contains($columns, 'usage_day')
            then strftime(pod_hours.hour_started_at, '%Y-%m-%d')
    end as usage_day,
    case
        when list_contains($columns, 'hour_started_at')
            then pod_hours.hour_started_at
    end as hour_started_at,
    case when list_contains($columns, 'label_value') then labels.label_value end as label_value,
    count(distinct row(pod_hours.cluster_id, pod_hours.pod_uid)) as pod_count,
    sum(cast(pod_hours.used_seconds as hugeint) * pod_hours.device_count) as device_seconds,
    sum(
        cast(pod_hours.used_seconds as hugeint)
        * pod_hours.device_count
        * pod_hours.weight_numerator
        * ($denominator // pod_hours.weight_denominator)
    ) as weighted,
    sum(pod_hours.uncertainty_seconds * pod_hours.device_count) as uncertainty_device_seconds,
    pod_hours.currency,
    sum(pod_hours.used_nanos) as cost_nanos
from pod_hours
left join names
    on pod_hours.cluster_id = names.cluster_id
left join dim_pod_labels as labels
    on
        pod_hours.billing_period = labels.billing_period
        and pod_hours.cluster_id = labels.cluster_id
        and pod_hours.pod_uid = labels.pod_uid
        and labels.label_key = $label_key
group by all
