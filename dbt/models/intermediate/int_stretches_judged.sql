{{ config(materialized='ephemeral') }}

with

stretches as (

    select *
    from {{ ref('int_allocation_stretches') }}
    where
        stretch_kind in (
            'agreed', 'not_expected', 'gap', 'samples_alone', 'sampled_end', 'open_end'
        )

),

-- The kind of these alone says what they are; of the others somebody had to look.
judged as (

    select * from {{ ref('int_absences_judged') }}
    union all
    select * from {{ ref('int_contradictions_judged') }}
    union all
    select
        pod_number,
        case stretch_kind
            when 'agreed' then 'confirmed'
            when 'not_expected' then 'lifecycle_only'
            when 'gap' then 'lifecycle_only'
            when 'samples_alone' then 'samples_only'
            when 'sampled_end' then 'samples_only'
            when 'open_end' then case
                when started_second < ended_second then 'samples_only' else 'missing'
            end
        end as method,
        case stretch_kind
            when 'agreed' then 'agree'
            when 'not_expected' then 'samples_not_expected'
            when 'gap' then 'hole'
            when 'samples_alone' then 'journal_not_expected'
            when 'sampled_end' then 'journal_gap'
            when 'open_end' then case
                when started_second < ended_second then 'journal_gap' else 'end_unknown'
            end
        end as method_reason,
        started_second,
        ended_second,
        uncertainty_before_seconds,
        uncertainty_after_seconds
    from stretches

)

select * from judged
