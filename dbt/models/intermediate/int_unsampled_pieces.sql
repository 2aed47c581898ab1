with

stretches as (

    select *
    from {{ ref('int_allocation_stretches') }}
    where stretch_kind in ('never_sampled', 'unsampled_end')

),

windows as (

    select * from {{ ref('int_cluster_windows') }}

),

sample_stretches as (

    select * from {{ ref('int_sample_stretches') }}

),

-- Where the journal speaks and the samples do not: was there anything to be sampled with?
pieces as (

    select
        stretches.pod_number,
        stretches.window_number,
        stretches.stretch_kind,
        sample_stretches.is_hole,
        windows.agreement_seconds,
        windows.sample_interval_seconds,
        greatest(stretches.started_second, sample_stretches.started_second) as started_second,
        least(stretches.ended_second, sample_stretches.ended_second) as ended_second
    from stretches
    inner join windows
        on stretches.window_number = windows.window_number
    inner join sample_stretches
        on
            stretches.window_number = sample_stretches.window_number
            and stretches.started_second < sample_stretches.ended_second
            and sample_stretches.started_second < stretches.ended_second

)

select * from pieces
