with

joined as (

    select * from {{ ref('int_allocations_matched_to_prices') }}

),

-- A price of a profile is for one such instance as it is; any other price is for a whole card.
priced as (

    select
        allocation_number,
        epoch_number,
        cluster_id,
        namespace,
        gpu_class,
        mig_profile,
        belongs_to,
        billable_state,
        is_outage,
        rate_id is not null and (is_profile_price or weight_numerator is not null) as is_priced,
        case when is_profile_price then 'price of the profile' else coalesce(weight_policy, '') end
            as weight_policy,
        case when is_profile_price then 1 else coalesce(weight_numerator, 0) end
            as weight_numerator,
        holder_count
        * case when is_profile_price then replica_count else coalesce(weight_denominator, 1) end
            as weight_denominator,
        rate_id,
        currency,
        rate_nanos_per_hour,
        valid_from_second,
        valid_until_second,
        period_started_second,
        period_ended_second
    from joined

),

keyed as (

    select
        allocation_number,
        epoch_number,
        cluster_id,
        namespace,
        belongs_to,
        gpu_class,
        mig_profile,
        billable_state,
        is_outage,
        weight_policy,
        weight_numerator,
        weight_denominator,
        case when is_priced then rate_id else '' end as rate_id,
        case when is_priced then currency else '' end as currency,
        case when is_priced then rate_nanos_per_hour else 0 end as rate_nanos_per_hour,
        case when is_priced then valid_from_second else period_started_second end
            as charge_started_second,
        case when is_priced then valid_until_second else period_ended_second end
            as charge_ended_second
    from priced

),

numbered as (

    select
        *,
        dense_rank() over (
            order by
                namespace,
                belongs_to,
                cluster_id,
                gpu_class,
                mig_profile,
                weight_numerator,
                weight_denominator,
                weight_policy,
                rate_id,
                charge_started_second
        ) as charge_number
    from keyed

)

select * from numbered
