with

observed as (

    select * from {{ ref('int_pods_observed') }}

),

sampled as (

    select * from {{ ref('int_sampled_pods') }}

),

pods as (

    select
        cluster_id,
        pod_uid
    from observed
    union
    select
        cluster_id,
        pod_uid
    from sampled

),

-- Numbers in the order of the natural keys: the same evidence, the same numbers.
numbered as (

    select
        row_number() over (order by cluster_id, pod_uid) as pod_number,
        cluster_id,
        pod_uid
    from pods

)

select * from numbered
