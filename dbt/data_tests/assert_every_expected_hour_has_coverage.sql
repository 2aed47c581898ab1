-- Invariant 15: what the calendar expects has one row, and its counts add up.
select *
from {{ ref('fct_coverage') }}
where
    expected_count <> seen_count + missing_count
    or expected_count <= 0
    or missing_count < 0
