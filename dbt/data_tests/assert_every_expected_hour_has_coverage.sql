-- Invariant 15: each expected hour has one row, no other hour has one, and its counts add up.
select
    coverage.*,
    expected.cluster_id as expected_cluster_id,
    expected.hour_second as expected_hour_second
from {{ ref('fct_coverage') }} as coverage
full outer join (
    select
        cluster_id,
        source,
        hour_second,
        sum(expected_count) as expected_count
    from {{ ref('int_expected_hours') }}
    group by cluster_id, source, hour_second
) as expected
    on
        coverage.cluster_id = expected.cluster_id
        and coverage.source = expected.source
        and {{ epoch_seconds('coverage.hour_started_at') }} = expected.hour_second
where
    coverage.cluster_id is null
    or expected.cluster_id is null
    or coverage.expected_count <> expected.expected_count
    or coverage.expected_count <> coverage.seen_count + coverage.missing_count
    or coverage.expected_count <= 0
    or coverage.missing_count < 0
