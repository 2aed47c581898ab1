with

tenant_hours as (

    select
        *,
        {{ epoch_seconds('hour_started_at') }} as hour_second
    from {{ ref('fct_tenant_hours') }}

),

progress as (

    select * from {{ ref('int_period_progress') }}

),

tenant_periods as (

    select
        tenant_hours.billing_period,
        tenant_hours.tenant,
        tenant_hours.belongs_to,
        tenant_hours.gpu_class,
        tenant_hours.mig_profile,
        tenant_hours.currency,
        {{ instant('max(progress.counted_until_second)') }} as counted_until,
        cast(sum(tenant_hours.running_device_seconds) as bigint) as running_device_seconds,
        cast(sum(tenant_hours.held_device_seconds) as bigint) as held_device_seconds,
        cast(sum(tenant_hours.billable_device_seconds) as bigint) as billable_device_seconds,
        cast(sum(tenant_hours.uncertainty_device_seconds) as bigint)
            as uncertainty_device_seconds,
        cast(sum(tenant_hours.cost_nanos) as decimal(38, 0)) as cost_nanos,
        cast(
            sum(
                case
                    when tenant_hours.hour_second >= progress.counted_until_second - 3600
                        then tenant_hours.cost_nanos
                    else 0
                end
            )
            as decimal(38, 0)
        ) as last_hour_cost_nanos,
        cast(
            sum(
                case
                    when tenant_hours.hour_second >= progress.counted_until_second - 86400
                        then tenant_hours.cost_nanos
                    else 0
                end
            )
            as decimal(38, 0)
        ) as last_day_cost_nanos
    from tenant_hours
    cross join progress
    group by
        tenant_hours.billing_period,
        tenant_hours.tenant,
        tenant_hours.belongs_to,
        tenant_hours.gpu_class,
        tenant_hours.mig_profile,
        tenant_hours.currency

)

select * from tenant_periods
