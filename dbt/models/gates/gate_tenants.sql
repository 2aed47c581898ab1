with

pod_hours as (

    select * from {{ ref('fct_pod_hours') }}

),

charges as (

    select * from {{ ref('fct_charges') }}

),

coverage as (

    select * from {{ ref('fct_coverage') }}

),

counted as (

    select
        billing_period,
        tenant,
        belongs_to,
        sum(billable_seconds * device_count) as seconds,
        sum(cost_nanos) as nanos
    from pod_hours
    group by billing_period, tenant, belongs_to

),

charged as (

    select
        billing_period,
        tenant,
        belongs_to,
        sum(device_seconds) as seconds,
        sum(cost_nanos) as nanos
    from charges
    group by billing_period, tenant, belongs_to

),

-- Who is on one side only is there with a 0 on the other.
sides as (

    select
        coalesce(counted.billing_period, charged.billing_period) as billing_period,
        coalesce(counted.tenant, charged.tenant) as tenant,
        coalesce(counted.belongs_to, charged.belongs_to) as belongs_to,
        cast(coalesce(counted.seconds, 0) as decimal(38, 0)) as counted_seconds,
        cast(coalesce(charged.seconds, 0) as decimal(38, 0)) as charged_seconds,
        cast(coalesce(counted.nanos, 0) as decimal(38, 0)) as counted_nanos,
        cast(coalesce(charged.nanos, 0) as decimal(38, 0)) as charged_nanos
    from counted
    full outer join charged
        on
            counted.billing_period = charged.billing_period
            and counted.tenant = charged.tenant
            and counted.belongs_to = charged.belongs_to

),

periods as (

    select distinct billing_period from coverage

),

-- A month without any use has this row all the same: a gate without a row proves nothing.
everyone as (

    select
        periods.billing_period,
        '(all)' as tenant,
        'provider' as belongs_to,
        cast(coalesce(sum(sides.counted_seconds), 0) as decimal(38, 0)) as counted_seconds,
        cast(coalesce(sum(sides.charged_seconds), 0) as decimal(38, 0)) as charged_seconds,
        cast(coalesce(sum(sides.counted_nanos), 0) as decimal(38, 0)) as counted_nanos,
        cast(coalesce(sum(sides.charged_nanos), 0) as decimal(38, 0)) as charged_nanos
    from periods
    left join sides
        on periods.billing_period = sides.billing_period
    group by periods.billing_period

),

gate as (

    select * from sides
    union all
    select * from everyone

)

select * from gate
