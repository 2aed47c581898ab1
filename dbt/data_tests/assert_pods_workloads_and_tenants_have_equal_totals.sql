-- noqa: disable=LT02,LT05
-- (jinja repeats a part of this test; its own indentation follows the loop)
-- Invariant 5: the hours, pods, workloads and months of a tenant, class and profile, and its charges,
-- come to one total, with ==.
{% set rolled_up = [
    'fct_tenant_hours', 'fct_tenant_periods', 'fct_pod_periods', 'fct_workload_periods',
] %}
with

totals as (

    {% for name in rolled_up %}
        select
            '{{ name }}' as added_up,
            tenant,
            gpu_class,
            mig_profile,
            sum(running_device_seconds) as running_device_seconds,
            sum(held_device_seconds) as held_device_seconds,
            sum(billable_device_seconds) as billable_device_seconds,
            coalesce(sum(cost_nanos), 0) as cost_nanos
        from {{ ref(name) }}
        group by tenant, gpu_class, mig_profile
        union all
    {% endfor %}
    select
        'fct_mig_weighted_hours' as added_up,
        tenant,
        gpu_class,
        mig_profile,
        sum(running_device_seconds) as running_device_seconds,
        null as held_device_seconds,
        sum(billable_device_seconds) as billable_device_seconds,
        null as cost_nanos
    from {{ ref('fct_mig_weighted_hours') }}
    group by tenant, gpu_class, mig_profile

)

select
    tenant,
    gpu_class,
    mig_profile
from totals
group by tenant, gpu_class, mig_profile
having
    count(*) <> {{ rolled_up | length + 1 }}
    or min(running_device_seconds) <> max(running_device_seconds)
    or min(held_device_seconds) <> max(held_device_seconds)
    or min(billable_device_seconds) <> max(billable_device_seconds)
    or min(cost_nanos) <> max(cost_nanos)
