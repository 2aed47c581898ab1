{{ config(materialized='ephemeral') }}

with

witnesses as (

    select *
    from {{ ref('int_pod_witnesses') }}
    where first_sampled_second is not null

),

neighbours as (

    select
        *,
        lag(started_second) over (
            partition by window_number order by started_second
        ) as hole_before_started_second,
        lead(ended_second) over (
            partition by window_number order by started_second
        ) as hole_after_ended_second
    from {{ ref('int_sample_stretches') }}

),

mass_endings as (

    select * from {{ ref('int_mass_endings') }}

),

sampled as (

    select *
    from neighbours
    where not is_hole

),

-- Between the last sentinel without the pod and the first with it lies the start; likewise the end.
bounded as (

    select
        witnesses.pod_number,
        witnesses.window_number,
        witnesses.window_started_second,
        witnesses.window_ended_second,
        witnesses.first_sampled_second,
        witnesses.last_sampled_second,
        case
            when
                first_stretch.started_second >= witnesses.first_sampled_second
                then
                    coalesce(
                        first_stretch.hole_before_started_second
                        - witnesses.sample_interval_seconds,
                        witnesses.window_started_second
                    )
            else
                witnesses.first_sampled_second
                - witnesses.sample_interval_seconds
                - witnesses.sample_delay_seconds
        end as unseen_until_second,
        case
            when mass_endings.window_number is not null then witnesses.window_ended_second
            when
                last_stretch.ended_second
                <= witnesses.last_sampled_second + witnesses.sample_interval_seconds
                then
                    coalesce(
                        last_stretch.hole_after_ended_second + 1, witnesses.window_ended_second
                    )
            else
                witnesses.last_sampled_second
                + witnesses.sample_interval_seconds
                + witnesses.sample_delay_seconds
                + 1
        end as unseen_from_second
    from witnesses
    left join sampled as first_stretch
        on
            witnesses.window_number = first_stretch.window_number
            and first_stretch.started_second <= witnesses.first_sampled_second
            and witnesses.first_sampled_second < first_stretch.ended_second
    left join sampled as last_stretch
        on
            witnesses.window_number = last_stretch.window_number
            and last_stretch.started_second <= witnesses.last_sampled_second
            and witnesses.last_sampled_second < last_stretch.ended_second
    left join mass_endings
        on
            witnesses.window_number = mass_endings.window_number
            and witnesses.last_sampled_second = mass_endings.last_sampled_second

)

select * from bounded
