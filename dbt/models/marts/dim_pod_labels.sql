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

-- The labels of a pod may change; the last observed set is used for its whole lifetime.
observed_labels as (

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
    from observed_labels

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

-- Samples have another spelling of keys (`app_kubernetes_io_name`), so they are used only for pods
-- without labels from the journal.
all_labels as (

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
    left join observed_labels
        on
            sampled_entries.cluster_id = observed_labels.cluster_id
            and sampled_entries.pod_uid = observed_labels.pod_uid
    where observed_labels.pod_uid is null and substr(sampled_entries.entry.key, 1, 6) = 'label_'

),

labels as (

    select
        pods.billing_period,
        pods.cluster_id,
        pods.pod_uid,
        all_labels.label_key,
        max(all_labels.label_value) as label_value
    from pods
    inner join all_labels
        on
            pods.cluster_id = all_labels.cluster_id
            and pods.pod_uid = all_labels.pod_uid
    group by pods.billing_period, pods.cluster_id, pods.pod_uid, all_labels.label_key

)

select * from labels
