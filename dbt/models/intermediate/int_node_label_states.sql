with

observed as (

    select * from {{ ref('int_node_labels_observed') }}

),

-- The journal sees a change when it happens, samples see it with the next scrape.
ranked as (

    select
        *,
        min(source) over (partition by cluster_id, node_name) as best_source
    from observed

),

changes as (

    select
        *,
        lag(labels_sha256) over (
            partition by cluster_id, node_name
            order by observed_second, journal_position, labels_sha256
        ) as previous_sha256
    from ranked
    where source = best_source

),

-- Of several changes within a second the last one counts.
starts as (

    select
        *,
        row_number() over (
            partition by cluster_id, node_name, observed_second
            order by journal_position desc, labels_sha256 desc
        ) as recency
    from changes
    where previous_sha256 is null or previous_sha256 <> labels_sha256

),

-- Before a node was first seen, it is taken to have been what it was then.
states as (

    select
        cluster_id,
        node_name,
        source,
        labels_sha256,
        case
            when lag(observed_second) over (
                partition by cluster_id, node_name order by observed_second
            ) is null then 0
            else observed_second
        end as valid_from_second,
        coalesce(
            lead(observed_second) over (
                partition by cluster_id, node_name order by observed_second
            ),
            {{ end_of_time() }}
        ) as valid_until_second
    from starts
    where recency = 1

)

select * from states
