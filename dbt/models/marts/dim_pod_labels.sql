with

pods as (

    select distinct
        billing_period,
        cluster_id,
        pod_uid
    from {{ ref('fct_pod_periods') }}

),

attempts as (

    select distinct
        cluster_id,
        attempt_id
    from {{ ref('int_attempts_used') }}

),

-- A pod's labels may change; its last observed set stands for all of its time.
observed as (

    select
        observations.cluster_id,
        observations.pod_uid,
        max_by(observations.pod_labels, observations.journal_position) as pod_labels
    from {{ ref('stg_kubernetes__pods') }} as observations
    inner join attempts
        on
            observations.cluster_id = attempts.cluster_id
            and observations.attempt_id = attempts.attempt_id
    group by observations.cluster_id, observations.pod_uid

),

observed_entries as (

    select
        cluster_id,
        pod_uid,
        {{ each_entry('pod_labels') }} as entry
    from observed

),

series as (

    select
        series.cluster_id,
        series.pod_uid,
        any_value(series.labels) as labels
    from {{ ref('stg_thanos__series') }} as series
    inner join attempts
        on
            series.cluster_id = attempts.cluster_id
            and series.attempt_id = attempts.attempt_id
    where series.metric = 'kube_pod_labels' and series.label_invalid = ''
    group by series.cluster_id, series.pod_uid, series.labels_sha256

),

sampled_entries as (

    select
        cluster_id,
        pod_uid,
        {{ each_entry('labels') }} as entry
    from series

),

-- Samples spell keys otherwise (`app_kubernetes_io_name`): they speak where no journal does.
united as (

    select
        observed_entries.cluster_id,
        observed_entries.pod_uid,
        observed_entries.entry.key as label_key,
        observed_entries.entry.value as label_value
    from observed_entries
    union all
    select
        sampled_entries.cluster_id,
        sampled_entries.pod_uid,
        substr(sampled_entries.entry.key, 7) as label_key,
        sampled_entries.entry.value as label_value
    from sampled_entries
    left join observed
        on
            sampled_entries.cluster_id = observed.cluster_id
            and sampled_entries.pod_uid = observed.pod_uid
    where observed.pod_uid is null and substr(sampled_entries.entry.key, 1, 6) = 'label_'

),

labels as (

    select
        pods.billing_period,
        pods.cluster_id,
        pods.pod_uid,
        united.label_key,
        max(united.label_value) as label_value
    from pods
    inner join united
        on
            pods.cluster_id = united.cluster_id
            and pods.pod_uid = united.pod_uid
    group by pods.billing_period, pods.cluster_id, pods.pod_uid, united.label_key

)

select * from labels
