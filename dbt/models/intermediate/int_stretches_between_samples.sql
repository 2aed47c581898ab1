{{ config(materialized='ephemeral') }}

with

witnesses as (

    select *
    from {{ ref('int_pod_witnesses') }}
    where started_second is not null

),

islands as (

    select
        *,
        lead(first_sampled_second) over (
            partition by pod_number, window_number order by first_sampled_second
        ) as next_sampled_second
    from {{ ref('int_allocations_from_samples') }}

),

agreed as (

    select
        islands.pod_number,
        islands.window_number,
        'agreed' as stretch_kind,
        case
            when
                islands.first_sampled_second = witnesses.first_sampled_second
                and witnesses.first_inside_second - witnesses.started_second
                <= witnesses.agreement_seconds
                then witnesses.started_second
            else greatest(islands.first_sampled_second, witnesses.started_second)
        end as started_second,
        case
            when islands.next_sampled_second is not null
                then
                    least(
                        islands.last_sampled_second + witnesses.sample_interval_seconds,
                        witnesses.known_until_second
                    )
            when
                witnesses.known_until_second - witnesses.last_inside_second
                <= witnesses.agreement_seconds
                then witnesses.known_until_second
            else least(islands.last_sampled_second, witnesses.known_until_second)
        end as ended_second
    from islands
    inner join witnesses
        on
            islands.pod_number = witnesses.pod_number
            and islands.window_number = witnesses.window_number

),

-- Two observations of one live UID prove everything between them.
gaps as (

    select
        islands.pod_number,
        islands.window_number,
        'gap' as stretch_kind,
        greatest(
            islands.last_sampled_second + witnesses.sample_interval_seconds,
            witnesses.started_second
        ) as started_second,
        least(islands.next_sampled_second, witnesses.known_until_second) as ended_second
    from islands
    inner join witnesses
        on
            islands.pod_number = witnesses.pod_number
            and islands.window_number = witnesses.window_number
    where islands.next_sampled_second is not null

),

proved as (

    select * from agreed
    union all
    select * from gaps

)

select * from proved
