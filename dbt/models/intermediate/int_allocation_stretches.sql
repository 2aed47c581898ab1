with

witnesses as (

    select
        *,
        least(greatest(first_sampled_second, started_second), known_until_second)
            as first_inside_second,
        least(greatest(last_sampled_second, started_second), known_until_second)
            as last_inside_second
    from {{ ref('int_pod_witnesses') }}

),

islands as (

    select
        *,
        lead(first_sampled_second) over (
            partition by pod_number, window_number order by first_sampled_second
        ) as next_sampled_second
    from {{ ref('int_allocations_from_samples') }}

),

sampled_spans as (

    select * from {{ ref('int_pod_sampled_spans') }}

),

-- Everything that the journal knows, as it stands beside the samples.
not_expected as (

    select
        pod_number,
        window_number,
        'not_expected' as stretch_kind,
        started_second,
        known_until_second as ended_second
    from witnesses
    where started_second is not null and not expects_samples

),

never_sampled as (

    select
        pod_number,
        window_number,
        'never_sampled' as stretch_kind,
        started_second,
        known_until_second as ended_second
    from witnesses
    where started_second is not null and expects_samples and first_sampled_second is null

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
    where witnesses.started_second is not null

),

unsampled_start as (

    select
        pod_number,
        window_number,
        'unsampled_end' as stretch_kind,
        started_second,
        first_inside_second as ended_second
    from witnesses
    where
        first_sampled_second is not null
        and first_inside_second - started_second > agreement_seconds

),

unsampled_end as (

    select
        pod_number,
        window_number,
        'unsampled_end' as stretch_kind,
        last_inside_second as started_second,
        known_until_second as ended_second
    from witnesses
    where
        last_sampled_second is not null
        and known_until_second - last_inside_second > agreement_seconds

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
    where islands.next_sampled_second is not null and witnesses.started_second is not null

),

-- What the samples say where the journal says something else, or nothing.
early as (

    select
        pod_number,
        window_number,
        'outside' as stretch_kind,
        first_sampled_second as started_second,
        least(started_second, last_sampled_second) as ended_second
    from witnesses
    where first_sampled_second < started_second - {{ clock_tolerance_seconds() }}

),

late as (

    select
        pod_number,
        window_number,
        'outside' as stretch_kind,
        greatest(known_until_second, first_sampled_second) as started_second,
        last_sampled_second as ended_second
    from witnesses
    where
        known_until_second = ended_by_second
        and last_sampled_second > known_until_second + {{ clock_tolerance_seconds() }}

),

-- The journal lost the end: the samples go on, or nothing does.
open_end as (

    select
        witnesses.pod_number,
        witnesses.window_number,
        'open_end' as stretch_kind,
        witnesses.known_until_second as started_second,
        greatest(
            least(
                coalesce(sampled_spans.ended_second, witnesses.known_until_second),
                witnesses.ended_by_second
            ),
            witnesses.known_until_second
        ) as ended_second,
        witnesses.ended_by_second,
        sampled_spans.ended_second + sampled_spans.uncertainty_after_seconds
            as unseen_from_second
    from witnesses
    left join sampled_spans
        on
            witnesses.pod_number = sampled_spans.pod_number
            and witnesses.window_number = sampled_spans.window_number
    where witnesses.known_until_second < witnesses.ended_by_second

),

samples_alone as (

    select
        sampled_spans.pod_number,
        sampled_spans.window_number,
        case when witnesses.expects_journal then 'unknown_uid' else 'samples_alone' end
            as stretch_kind,
        sampled_spans.started_second,
        sampled_spans.ended_second,
        sampled_spans.uncertainty_before_seconds,
        sampled_spans.uncertainty_after_seconds
    from sampled_spans
    inner join witnesses
        on
            sampled_spans.pod_number = witnesses.pod_number
            and sampled_spans.window_number = witnesses.window_number
    where witnesses.started_second is null

),

certain as (

    select * from not_expected
    union all
    select * from never_sampled
    union all
    select * from agreed
    union all
    select * from unsampled_start
    union all
    select * from unsampled_end
    union all
    select * from gaps
    union all
    select * from early
    union all
    select * from late

),

stretches as (

    select
        *,
        cast(0 as bigint) as uncertainty_before_seconds,
        cast(0 as bigint) as uncertainty_after_seconds
    from certain
    where started_second < ended_second
    union all
    select
        pod_number,
        window_number,
        stretch_kind,
        started_second,
        ended_second,
        cast(0 as bigint) as uncertainty_before_seconds,
        greatest(
            least(ended_by_second, coalesce(unseen_from_second, ended_by_second)),
            ended_second
        )
        - ended_second as uncertainty_after_seconds
    from open_end
    union all
    select * from samples_alone

)

select * from stretches
