"""Models broken on purpose, one at a time, and the tests that fail: `python -m tests.mutants
[NAME…]`

Put here: the mutants, and running the comparison with the truth on each.
Not here: the comparison (`tests/scenarios/test_facts_equal_truth.py`), or the reasons for
surviving mutants (`docs/explanation/mutants.md`).

The models are copied and one text in one of them is replaced. A mutant is caught if a unit test of
that model fails, if it cannot be built, if a data test of dbt fails, or if a fact differs from the
truth. They run in this order, and the first failure ends it. Unit tests run in `make test-deep`
(`test_thin_line`), the others in `make test` (`test_facts_equal_truth`), whose library has the
scenarios and seeds used here. Fleets, evidence and decisions are the same for all, so a mutant
takes a build of the models after the broken one: two to three seconds of CPU time.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from domain.errors import LedgerError
from tests.scenarios import test_facts_equal_truth as compared
from warehouse import dbt_run
from warehouse import project as project_module
from warehouse.build import WORKING_NAME, BuildResult, build_period
from warehouse.connection import connected
from warehouse.home import Home
from warehouse.project import dbt_project_dir
from warehouse.switch import switch_in

if TYPE_CHECKING:
    from dbt.artifacts.schemas.results import NodeResult

MACROS = "macros/"
"""The models that use a macro are not listed, so a broken macro runs the tests of all models."""
INT, MARTS = "models/intermediate", "models/marts"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One text of one file, and its replacement."""

    name: str
    file: str
    before: str
    after: str


MUTANTS = (
    Mutant("an_end_over_the_hour", f"{INT}/int_allocation_hours.sql",
           "least(segment_hours.ended_second, segment_hours.hour_second + 3600)",
           "segment_hours.hour_second + 3600"),
    Mutant("a_start_before_the_hour", f"{INT}/int_allocation_hours.sql",
           "greatest(segment_hours.started_second, segment_hours.hour_second)",
           "segment_hours.hour_second"),
    Mutant("every_restart_is_a_start", f"{INT}/int_pods_from_journal.sql",
           "min(observations.started_second)", "max(observations.started_second)"),
    Mutant("an_ended_pod_goes_on", f"{INT}/int_pods_from_journal.sql",
           " or phase in ('Succeeded', 'Failed')", ""),
    Mutant("requests_are_added_up", f"{INT}/int_requests.sql",
           "max(requests.device_count)", "cast(sum(requests.device_count) as bigint)"),
    Mutant("a_claim_without_distinct", f"{INT}/int_claimed_devices.sql",
           "select distinct\n        claims.cluster_id", "select\n        claims.cluster_id"),
    Mutant("an_extended_claim_counts_twice", f"{INT}/int_claimed_devices.sql",
           "and not is_of_extended_resource", ""),
    Mutant("labels_of_an_hour_later", f"{INT}/int_allocations.sql",
           "settled_second < label_states.valid_until_second",
           "settled_second + 3600 < label_states.valid_until_second"),
    Mutant("labels_without_an_end", f"{INT}/int_allocations.sql",
           "and allocations.settled_second < label_states.valid_until_second", ""),
    Mutant("each_sharer_pays_the_whole", f"{INT}/int_priced_segments.sql",
           "weight_denominator * holder_counts.holder_count", "weight_denominator"),
    Mutant("levels_forget_what_was", "macros/levels_by_hour.sql",
           "cast(sum({{ quantity }}) over so_far as bigint)",
           "cast(max({{ quantity }}) over so_far as bigint)"),
    Mutant("the_least_of_the_hour", "models/marts/fct_node_hours.sql",
           "max(running_cards) as gpu_count_max", "min(running_cards) as gpu_count_max"),
    Mutant("a_held_claim_runs", f"{INT}/int_device_use.sql",
           "claim_levels.running_count > 0", "claim_levels.running_count >= 0"),
    Mutant("parts_of_a_card_rounded_down", f"{INT}/int_shared_card_changes.sql",
           "running_level + devices_per_card - 1", "running_level"),
    Mutant("half_an_hour_to_the_east", "macros/seconds.sql",
           "(epoch_us({{ instant }}) // 1000000)", "(epoch_us({{ instant }}) // 1000000 + 1800)"),
    Mutant("hours_named_half_an_hour_late", "macros/seconds.sql",
           "cast({{ second }} as bigint) * 1000000",
           "(cast({{ second }} as bigint) + 1800) * 1000000"),
    Mutant("every_answer_counts", f"{INT}/int_attempts_used.sql", " and recency = 1", ""),
    Mutant("contradictions_settle_themselves", f"{INT}/int_allocations_reconciled.sql",
           "then 'contradicted'", "then rules.segment_kind"),
    Mutant("a_scheduler_of_another_lifetime", f"{INT}/int_requests.sql",
           "            and scheduler_runs.first_sampled_ms <= intervals.last_sampled_ms\n", ""),
    Mutant("hours_with_a_gap_are_one_run", f"{INT}/int_pod_sample_runs.sql",
           "ordered_runs.previous_sampled_ms is null\n        or",
           "ordered_runs.previous_sampled_ms is null\n        and"),
    Mutant("a_run_ends_with_its_first_hour", f"{INT}/int_pod_sample_runs.sql",
           "rows between unbounded preceding and unbounded following",
           "rows between current row and current row"),
    Mutant("a_request_alone_is_a_sample", f"{INT}/int_running_intervals_from_samples.sql",
           "where request_level > 0 and phase_level > 0", "where request_level > 0"),
    Mutant("phases_may_be_missing", f"{INT}/int_pod_contradictions.sql",
           "last_request_second - last_phase_second > agreement_seconds", "false"),
    Mutant("labels_that_never_overlap", f"{INT}/int_pod_contradictions.sql",
           ">= windows.sample_interval_seconds * 1000", ">= 3600000"),
    Mutant("a_charge_of_one_device", f"{INT}/int_charges.sql",
           "billable_seconds * device_count", "billable_seconds"),
    Mutant("a_nano_is_lost", f"{MARTS}/fct_pod_hours.sql",
           "remainder_rank <= ranked_hours.raised_count",
           "remainder_rank < ranked_hours.raised_count"),
    Mutant("an_hour_of_3601_seconds", "macros/price_nanos.sql", "* 3600)", "* 3601)"),
    Mutant("rates_join_without_class", f"{INT}/int_allocation_prices.sql",
           "and allocations.gpu_class = rate_intervals.gpu_class", ""),
    Mutant("namespaces_are_mixed", f"{INT}/int_allocations.sql",
           "coalesce(nullif(journal.namespace, ''), requests.namespace, '')",
           "coalesce(requests.namespace, '')"),
    Mutant("the_end_is_when_it_was_told", f"{INT}/int_pods_from_journal.sql",
           "then least(ended_second, first_ended_second)", "then first_ended_second"),
    Mutant("held_is_running", f"{INT}/int_allocations_reconciled.sql",
           "        rules.allocation_state,\n", "        'running' as allocation_state,\n"),
    Mutant("an_answer_that_failed_counts", f"{INT}/int_attempts_used.sql",
           "'truncated')", "'truncated', 'failed')"),
    Mutant("an_administrators_look_takes", f"{INT}/int_claimed_devices.sql",
           "and not is_admin_access", ""),
    Mutant("an_end_that_the_living_name", f"{INT}/int_pods_from_journal.sql",
           "case when observations.is_ended then observations.ended_second end",
           "observations.ended_second"),
    Mutant("a_life_that_never_was_short", f"{INT}/int_pods_from_journal.sql",
           "then least(started_second, known_until_second) end", "then started_second end"),
    Mutant("a_watch_that_was_not_broken", f"{INT}/int_pods_from_journal.sql",
           "when first_ended_second <= watched_until_second then first_ended_second",
           "when first_ended_second is not null then first_ended_second"),
    Mutant("an_observation_outside_the_watch", f"{INT}/int_pods_from_journal.sql",
           "            and observed_pods.placed_second < watches.ended_second", ""),
    Mutant("holes_of_two_intervals", "macros/agreement.sql", "> 3000 *", "> 4000 *"),
    Mutant("clocks_of_a_minute", "macros/agreement.sql", "    15\n", "    60\n"),
    Mutant("samples_after_the_window", f"{INT}/int_allocations_from_samples.sql",
           "least(neighbours.last_sampled_ms, windows.window_ended_second * 1000)",
           "neighbours.last_sampled_ms"),
    Mutant("spans_of_all_pods_together", f"{INT}/int_allocations_from_samples.sql",
           "is_gap('first_sampled_ms - reached', 'sample_interval_seconds')", "'false'"),
    Mutant("a_start_an_interval_late", f"{INT}/int_allocation_segments.sql",
           "then evidence.started_second\n", "then sample_intervals.first_sampled_second\n"),
    Mutant("an_end_at_the_last_sample", f"{INT}/int_allocation_segments.sql",
           "then evidence.known_until_second\n            else",
           "then sample_intervals.last_sampled_second\n            else"),
    Mutant("gaps_are_not_proved", f"{INT}/int_allocation_segments.sql",
           "    union all\n    select * from sample_gaps\n", ""),
    Mutant("early_samples_are_passed_over", f"{INT}/int_allocation_segments.sql",
           "where first_sampled_second < started_second - {{ clock_tolerance_seconds() }}",
           "where false"),
    Mutant("late_samples_are_passed_over", f"{INT}/int_allocation_segments.sql",
           "where last_sampled_second > ended_by_second + {{ clock_tolerance_seconds() }}",
           "where false"),
    Mutant("lost_ends_are_forgotten", f"{INT}/int_allocation_segments.sql",
           "where known_until_second < ended_by_second", "where false"),
    Mutant("uncertainty_is_none", f"{INT}/int_allocation_segments.sql",
           "greatest(ended_at_latest_second, ended_second) - ended_second", "cast(0 as bigint)"),
    Mutant("a_start_after_restarts_is_certain", f"{INT}/int_pods_from_journal.sql",
           "when first_restart_count = 0 then", "when first_restart_count >= 0 then"),
    Mutant("nobody_ever_watched", f"{INT}/int_allocation_segments.sql",
           "when watch_intervals.is_watched then", "when false then"),
    Mutant("an_absence_is_agreement", f"{INT}/int_unsampled_segments.sql",
           "> parts.agreement_seconds then 'absent'", "> parts.agreement_seconds then 'agrees'"),
    Mutant("a_claim_has_a_metric", f"{INT}/int_unsampled_segments.sql",
           "    having min(claim_uid) <> ''\n", "    having false\n"),
    Mutant("held_while_it_runs", f"{INT}/int_allocation_segments.sql",
           "            coalesce(first_running.started_second, {{ end_of_time() }}),\n", ""),
    Mutant("a_lost_start_is_the_first_sample", f"{INT}/int_allocation_segments.sql",
           "sampled_from_second as started_second,\n        least",
           "first_sampled_second as started_second,\n        least"),
    Mutant("nothing_is_held", f"{INT}/int_allocation_segments.sql",
           "where lifecycles.bound_second is not null", "where false"),
    Mutant("held_beyond_the_start", f"{INT}/int_allocation_segments.sql",
           "coalesce(lifecycles.started_second, lifecycles.known_until_second)",
           "lifecycles.known_until_second"),
    Mutant("a_reported_start_is_not_used", f"{INT}/int_pod_evidence.sql",
           "coalesce(reported_times.container_started_second, both_times.first_sampled_second),",
           "both_times.first_sampled_second,"),
    Mutant("an_unknown_end_is_counted", f"{INT}/int_allocations_reconciled.sql",
           "when segment_parts.billed = 'nothing' then false",
           "when segment_parts.billed = 'nothing' then true"),
    Mutant("a_gap_is_accepted_for_every_cluster", f"{INT}/int_allocations_reconciled.sql",
           "            segment_parts.cluster_id = accepted_gaps.cluster_id\n            and ",
           "            "),
    Mutant("capacity_of_all_resources_at_once", f"{INT}/int_node_capacity.sql",
           "partition by cluster_id, node_name, resource order by observed_second\n            ),",
           "partition by cluster_id, node_name order by observed_second\n            ),"),
    Mutant("a_resource_not_listed_stays", f"{INT}/int_node_capacity.sql",
           "coalesce(listed_counts.capacity_count, 0)",
           "coalesce(listed_counts.capacity_count, 1)"),
    Mutant("both_sources_of_capacity", f"{INT}/int_node_capacity.sql",
           "    where source = best_source\n", ""),
    Mutant("policies_without_an_end", f"{INT}/int_allocation_prices.sql",
           "and decision_sets.decision_set_started_second < policies.valid_until_second\n",
           ""),
    Mutant("weights_of_any_resource", f"{INT}/int_allocation_prices.sql",
           "            and allocations.resource = weights.resource\n", ""),
    Mutant("rates_of_any_profile", f"{INT}/int_allocation_prices.sql",
           "            and allocations.mig_profile = rate_intervals.mig_profile\n", ""),
    Mutant("a_shared_claim_is_paid_by_each", f"{INT}/int_priced_segments.sql",
           "            and allocations.resource_key = shares.resource_key\n", ""),
    Mutant("levels_are_one_event_late", "macros/levels_by_hour.sql",
           "hour_second order by event_second)",
           "hour_second order by event_second"
           " rows between unbounded preceding and 1 preceding)"),
    Mutant("each_hour_begins_with_nothing", "macros/levels_by_hour.sql",
           "rows between unbounded preceding and 1 preceding",
           "rows between 1 following and 1 following"),
    Mutant("a_running_slice_stays", f"{INT}/int_slice_events.sql",
           "        ends.change * intervals.amount as change",
           "        greatest(ends.change, 0) * intervals.amount as change"),
    Mutant("held_slices_run", f"{INT}/int_slice_events.sql",
           "    where allocation_state = 'running'\n", ""),
    Mutant("sum_of_maxima_is_a_maximum", "models/marts/fct_cluster_hours.sql",
           "sum(gpu_count_max) as sum_of_node_max", "max(gpu_count_max) as sum_of_node_max"),
    Mutant("the_most_workers_on_the_hour", "models/marts/fct_cluster_hours.sql",
           "min_by(active_workers, started_second)", "max(active_workers)"),
    Mutant("a_deleted_node_stays_ready", f"{INT}/int_active_worker_levels.sql",
           "nodes.is_ready and not nodes.is_deleted as is_ready", "nodes.is_ready as is_ready"),
    Mutant("replicas_of_a_series_are_added", f"{INT}/int_requests.sql",
           "max(container_runs.device_count) as device_count",
           "sum(container_runs.device_count) as device_count"),
    Mutant("a_claim_of_any_number_of_holders", f"{INT}/int_priced_segments.sql",
           "            and holder_segments.holder_count = numbered_charges.holder_count\n", ""),
    Mutant("the_uncertainty_of_a_last_holder_is_lost", f"{INT}/int_priced_segments.sql",
           "else shares.ended_second + 1 end", "else shares.ended_second end"),
    Mutant("segments_of_every_decision_set", f"{INT}/int_priced_segments.sql",
           "            and holder_segments.decision_set_number"
           " = numbered_charges.decision_set_number\n", ""),
    Mutant("a_pod_with_only_its_end_known", f"{INT}/int_allocations_from_samples.sql",
           "                    and reported_times.container_started_second"
           " >= windows.window_started_second\n", ""),
    Mutant("what_is_offered_is_forgotten", f"{INT}/int_node_offers.sql",
           "rows between unbounded preceding and current row",
           "rows between current row and current row"),
    Mutant("slices_of_a_layout_of_an_hour_later", f"{INT}/int_slices_placed.sql",
           "    card_levels.level.started_second,\n    card_levels.level.ended_second,",
           "    card_levels.level.started_second + 3600 as started_second,\n"
           "    card_levels.level.ended_second + 3600 as ended_second,"),
    Mutant("shares_of_one_end_alone", f"{INT}/int_node_class_use.sql",
           "('ended_second', '-')", "('ended_second', '0 * ')"),
    Mutant("a_pause_is_measured", f"{MARTS}/fct_fleet_hours.sql",
           " or next_from_second <> measured_until_second", ""),
    Mutant("cards_of_one_class_alone", f"{MARTS}/fct_node_hours.sql",
           "sum(installed_cards) as installed_cards", "max(installed_cards) as installed_cards"),
    Mutant("disputes_of_every_decision_set_and_hour", f"{INT}/int_allocations_reconciled.sql",
           "            (reconciled_segments.billed = 'as_accepted') = cuts.is_for_disputes\n"
           "            and ",
           "            "),
    Mutant("a_weight_is_dropped", f"{MARTS}/fct_mig_weighted_hours.sql",
           "sum(running_seconds * device_count * weight_numerator)",
           "sum(running_seconds * device_count)"),
    Mutant("a_tenants_largest_hour", f"{MARTS}/fct_tenant_periods.sql",
           "cast(sum(tenant_hours.running_device_seconds) as bigint)",
           "cast(max(tenant_hours.running_device_seconds) as bigint)"),
    Mutant("a_fleet_at_rest", f"{MARTS}/fct_fleet_hours.sql",
           "cast(sum(cluster_hours.gpu_seconds) as bigint)", "cast(0 as bigint)"),
    Mutant("nothing_runs_on_nodes", f"{MARTS}/fct_node_share_hours.sql",
           "running_{{ dimension }} as running", "0 * running_{{ dimension }} as running"),
    Mutant("every_other_hour_is_covered", f"{MARTS}/fct_coverage.sql",
           "select * from coverage", "select * from coverage where hour(hour_started_at) % 2 = 0"),
    Mutant("only_what_has_a_rate", f"{INT}/int_allocation_prices.sql",
           "left join {{ ref('stg_decisions__rate_intervals')",
           "inner join {{ ref('stg_decisions__rate_intervals')"),
    Mutant("coverage_of_the_best_metric", f"{MARTS}/fct_coverage.sql",
           "max(missing_count) as missing_count", "min(missing_count) as missing_count"),
    Mutant("gaps_are_what_was_watched", f"{MARTS}/fct_gaps.sql",
           "where not is_watched", "where is_watched"),
    Mutant("gaps_beyond_the_window", f"{MARTS}/fct_gaps.sql",
           "least(watch_gaps.ended_second, windows.window_ended_second)",
           "watch_gaps.ended_second"),
    Mutant("idle_by_eight_of_ten", f"{MARTS}/fct_gpu_use.sql",
           "9 * due_sample_count", "8 * due_sample_count"),
    Mutant("two_lives_are_one", f"{MARTS}/fct_gpu_use.sql",
           "pod_count = 1\n", "pod_count >= 1\n"),
    Mutant("the_largest_quota_binds", f"{MARTS}/fct_quotas.sql",
           "min(quota_states.hard_count)", "max(quota_states.hard_count)"),
    Mutant("quotas_of_both_sources", f"{MARTS}/fct_quotas.sql",
           "    where source = best_source\n", ""),
    Mutant("what_was_allocated_stays", f"{MARTS}/fct_quotas.sql",
           "-device_count as device_count", "0 as device_count"),
    Mutant("a_forecast_at_the_pace_of_a_day", f"{MARTS}/fct_forecasts.sql",
           "exact('pace_nanos') ~ ' * left_seconds', 'pace_seconds'",
           "exact('pace_nanos') ~ ' * left_seconds', 86400"),
    Mutant("a_day_without_use_is_no_day", f"{MARTS}/fct_forecasts.sql",
           "when weeks.used_day_count = progress.day_count", "when true"),
    Mutant("a_pod_that_has_ended_goes_on", f"{MARTS}/fct_forecasts.sql",
           "            >= progress.counted_until_second\n", "            >= 0\n"),
    Mutant("a_tenant_is_its_dearest_workload", f"{MARTS}/fct_forecasts.sql",
           "        days_ago,\n        sum(cost_nanos) as cost_nanos",
           "        days_ago,\n        max(cost_nanos) as cost_nanos"),
    Mutant("the_provider_has_a_forecast", f"{MARTS}/fct_forecasts.sql",
           "where belongs_to = 'tenant'", "where belongs_to <> ''"),
    Mutant("a_budget_of_any_currency", f"{MARTS}/fct_forecasts.sql",
           "            and subjects.currency = budgets.currency\n", ""),
    Mutant("days_before_the_last_week_count", f"{MARTS}/fct_forecasts.sql",
           "when days.days_ago < progress.day_count then days.cost_nanos else 0",
           "when true then days.cost_nanos else 0"),
    Mutant("credits_of_any_outage", f"{MARTS}/fct_outage_credits.sql",
           "            and {{ epoch_seconds('pod_hours.segment_started_at') }}"
           " < outages.ended_second\n", ""),
    Mutant("credits_of_the_outages_of_any_pod", f"{MARTS}/fct_outage_credits.sql",
           "            and outages.pod_uid in ('', pod_hours.pod_uid)\n", ""),
    Mutant("credits_of_overlapping_outages_add_up", f"{MARTS}/fct_outage_credits.sql",
           "    where outage_rank = 1\n", ""),
    Mutant("credits_are_paid_once_more", f"{MARTS}/fct_outage_credits.sql",
           "cast(-sum(cost_nanos)", "cast(sum(cost_nanos)"),
    Mutant("a_workload_is_its_largest_pod", f"{MARTS}/fct_workload_periods.sql",
           "sum(running_device_seconds)", "max(running_device_seconds)"),
    Mutant("held_devices_of_a_pod_are_one", f"{MARTS}/fct_pod_periods.sql",
           "sum(pod_hours.held_seconds * pod_hours.device_count)", "sum(pod_hours.held_seconds)"),
    Mutant("what_is_billed_is_what_runs", f"{MARTS}/fct_tenant_hours.sql",
           "sum(billable_seconds * device_count)", "sum(running_seconds * device_count)"),
    Mutant("an_hour_without_a_source_is_zero", f"{MARTS}/rpt_ccsp_hours.sql",
           ">= 3600 then 'not measured'", "> 3600 then 'not measured'"),
    Mutant("an_hour_without_facts_is_measured", f"{MARTS}/rpt_ccsp_hours.sql",
           "when cluster_hours.cluster_id is null then 'not measured'",
           "when cluster_hours.cluster_id is null then 'measured'"),
    Mutant("rates_end_where_they_begin", "models/staging/stg_decisions__rate_intervals.sql",
           "{{ epoch_seconds('valid_until') }}", "{{ epoch_seconds('valid_from') }}"),
    Mutant("an_end_is_when_it_was_observed", "models/staging/stg_kubernetes__pods.sql",
           "{{ epoch_seconds('ended_at') }}", "{{ epoch_seconds('observed_at') }}"),
    Mutant("runs_end_where_they_begin", "models/staging/stg_thanos__sample_runs.sql",
           "+ last_offset_ms", "+ first_offset_ms"),
    Mutant("every_node_is_ready", "models/staging/stg_kubernetes__nodes.sql",
           "ready as is_ready", "true as is_ready"),
    Mutant("some_of_its_instances_are_enough", f"{INT}/int_allocations_placed_on_cards.sql",
           "having sum(instance_count) = device_count", "having sum(instance_count) > 0"),
    Mutant("a_name_is_one_pod_for_ever", f"{INT}/int_allocations_placed_on_cards.sql",
           "having count(distinct pod_uid) = 1", "having count(distinct pod_uid) >= 1"),
    Mutant("hours_that_contradict_each_other", f"{INT}/int_allocations_placed_on_cards.sql",
           "card_placements.hour_count = complete.hour_count\n        and ", ""),
    Mutant("removed_slices_are_cards", f"{INT}/int_node_offer_cards.sql",
           "case when labelled_cards > 0 then labelled_cards else cards_of_capacity end",
           "greatest(labelled_cards, cards_of_capacity)"),
    Mutant("one_known_card_is_enough", f"{INT}/int_node_levels_by_devices.sql",
           "bool_and(busy_intervals.is_known)", "bool_or(busy_intervals.is_known)"),
    Mutant("known_nodes_count_twice", f"{INT}/int_cluster_card_levels.sql",
           "    where known_hours.node_number is null\n", ""),
    Mutant("clusters_never_leave_the_fleet", f"{MARTS}/fct_fleet_hours.sql",
           "where next_from_second is null or", "where false and"),
    Mutant("the_fewest_devices_of_the_hour", f"{MARTS}/fct_node_class_hours.sql",
           "max(levels.running_count)", "min(levels.running_count)"),
    Mutant("either_source_measures", f"{INT}/int_unmeasured_intervals.sql",
           "greatest(unsampled_intervals.started_second, unwatched_intervals.started_second)",
           "least(unsampled_intervals.started_second, unwatched_intervals.started_second)"),
    Mutant("a_driver_publishes_a_card_twice", f"{MARTS}/dim_devices.sql",
           "        and named_by_driver.node_name is null\n", ""),
    Mutant("a_joining_node_has_devices_at_once", f"{INT}/int_metrics_due.sql",
           "else greatest(capacity.first_sampled_ms, followed_series.started_ms)",
           "else followed_series.started_ms"),
    Mutant("the_journal_has_the_clock_of_samples", f"{INT}/int_metrics_due.sql",
           "            pods.started_second\n"
           "            + windows.scrape_interval_seconds\n"
           "            + {{ clock_tolerance_seconds() }}\n",
           "            pods.started_second\n"),
    Mutant("telemetry_beside_requests_makes_them_due", f"{INT}/int_metrics_due.sql",
           "        and requested.cluster_id is null\n", ""),
    Mutant("phases_are_due_until_the_last_sample", f"{INT}/int_metrics_due.sql",
           "        + windows.sample_interval_seconds * 1000 as ended_ms", "        as ended_ms"),
    Mutant("gaps_of_the_cluster_are_gaps_of_its_pods", f"{MARTS}/fct_coverage.sql",
           "where cluster_gap_levels.gap_count = 0", "where cluster_gap_levels.gap_count >= 0"),
    Mutant("a_removed_worker_stays_in_samples", f"{INT}/int_active_worker_levels.sql",
           "    union all\n    select * from removals\n", ""),
)  # fmt: skip


@contextlib.contextmanager
def broken(project: Path, mutant: Mutant | None) -> Iterator[None]:
    """Within the block, builds use a copy of the models with one text replaced.

    The copy is always in the same folder, because dbt stores parsed files by their path.
    """
    readers = (dbt_run, project_module)
    original = project_module.dbt_project_dir
    for reader in readers:
        reader.dbt_project_dir = lambda: project
    path = project / (mutant.file if mutant else "dbt_project.yml")
    text = path.read_text(encoding="utf-8")
    if mutant is not None:
        assert mutant.before in text, f"{mutant.name}: {mutant.file} has changed"
        path.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")
        for reader in readers:
            reader.dbt_project_dir = original


class Project(dbt_run.DbtProject):
    """Models of which only those after a broken one are built again."""

    def run_from(self, model: str) -> list[NodeResult]:
        """Build the model and all models that depend on it; the results of all data tests."""
        made_of = self._made_of()
        self.forget({name for name in made_of if model in _before(name, made_of)})
        dbt_run.require_models(self._results("run", "--select", f"{model}+"))
        return self._results("test", "--exclude-resource-type", "unit_test")

    def failed_situations(self, files: Collection[str]) -> list[str]:
        """The failed unit tests of the models in these files, or of all models for a macro."""
        models = {case.model for case in self.parse().unit_tests.values()}
        if not any(file.startswith(MACROS) for file in files):
            models &= {Path(file).stem for file in files}
        if not models:
            return []
        chosen = (f"{model},test_type:unit" for model in sorted(models))
        ran = [
            result
            for result in self._results("test", "--select", *chosen)
            if str(result.node.resource_type) == "unit_test"  # results of hooks are left out
        ]
        assert ran, f"no unit test of {models} ran"
        return [result.node.name for result in ran if str(result.status) != "pass"]

    def forget(self, models: set[str] | None = None) -> None:
        """Drop models, all or some, because an existing model is not built again."""
        with connected(self._database) as connection:
            for schema, name, kind in connection.execute(
                "select table_schema, table_name, table_type from information_schema.tables"
                " where table_schema in ('staging', 'intermediate', 'marts')"
            ).fetchall():
                if models is None or name in models:
                    connection.execute(f"drop {kind.split()[-1]} {schema}.{name}")

    def _made_of(self) -> dict[str, list[str]]:
        return {
            node.name: [name.rpartition(".")[2] for name in node.depends_on_nodes]
            for node in self.parse().nodes.values()
        }


def _before(model: str, made_of: Mapping[str, Sequence[str]]) -> set[str]:
    """The model and all models that it reads."""
    found, todo = {model}, [model]
    while todo:
        new = set(made_of.get(todo.pop(), ())) - found
        found |= new
        todo += new
    return found


class Bench:
    """One home with evidence, and the comparison of its facts."""

    healthy: BuildResult  # of the original models; built first

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Home.create(folder / "home")
        self.fleets = compared.fleets_of(compared.VARIED)
        seeded, drawn = compared.seeded_ones()
        self.fleets |= seeded
        self.unwatched = compared.record_fleets(self.home, self.fleets, drawn)
        self.decisions = compared.decisions_of(self.fleets)

    def failures_of_original(self, files: Collection[str]) -> list[str]:
        """The tests that fail on the original models: unit tests of these files, and the others."""
        failed = [test.name for test in self._build_whole()]
        return self._failed_situations(files) or failed or self._failed_comparisons()

    def catchers(self, mutant: Mutant) -> tuple[str, list[str]]:
        """The tier, and its tests that fail; empty if all pass."""
        if situations := self._failed_situations([mutant.file]):
            return "make test-deep", situations
        try:
            failed = [test.name for test in self._build_from(mutant)]
        except LedgerError as refused:
            failed = [f"not built: {refused.seen[:200]}"]
        return "make test", failed or self._failed_comparisons()

    def _failed_comparisons(self) -> list[str]:
        """The first comparison with the truth that fails."""
        for test in (
            compared.test_with_an_unbroken_journal_every_fact_is_the_truth,
            compared.test_cards_of_slices_are_known_where_telemetry_names_them,
            compared.test_a_flag_names_a_fault_that_really_touched_it,
            compared.test_without_a_watch_a_pod_is_right_or_within_its_uncertainty,
            compared.test_without_a_watch_hours_are_right_or_within_their_uncertainty,
            compared.test_money_is_weighted_seconds_times_the_price,
        ):
            try:
                test(self.recorded)
            except AssertionError:
                return [test.__name__]
        return []

    @cached_property
    def recorded(self) -> compared.RecordedFleets:
        return compared.RecordedFleets(self.fleets, self.unwatched, self.home, self.healthy)

    def _build_whole(self) -> list[dbt_run.DbtTest]:
        self.healthy = build_period(
            self.home, compared.PERIOD, self.decisions, closed_periods=frozenset()
        )
        shutil.copy(self.healthy.build_path, self.folder / "healthy.duckdb")
        return self.healthy.failed_tests

    def _build_from(self, mutant: Mutant) -> list[dbt_run.DbtTest]:
        """Build the broken model and those after it; the models before it are unchanged."""
        working = self.home.build / WORKING_NAME
        shutil.copy(self.folder / "healthy.duckdb", working)
        project = Project(self.home.build / "dbt", working)
        if mutant.file.startswith(MACROS):
            project.forget()
            results = project.build()
        else:
            results = project.run_from(Path(mutant.file).stem)
        failed = [t for t in dbt_run.tests_of(results, {}) if not t.passed]
        working.replace(self.healthy.build_path)
        switch_in(self.home, self.healthy.build_path, compared.PERIOD)
        return failed

    def _failed_situations(self, files: Collection[str]) -> list[str]:
        """Unit tests of models have their own rows; they need the types of a build."""
        working = self.home.build / WORKING_NAME
        shutil.copy(self.folder / "healthy.duckdb", working)
        project = Project(self.home.build / "dbt", working)
        return project.failed_situations(files)


def survivors_of(names: Collection[str]) -> list[str]:
    """The mutants, of the named or of all, that no test catches."""
    wanted = [m for m in MUTANTS if not names or m.name in names]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        project = Path(folder) / "project"
        shutil.copytree(dbt_project_dir(), project)
        with broken(project, None):
            failures = bench.failures_of_original([mutant.file for mutant in wanted])
        assert not failures, f"unbroken models are not right: {failures}"
        survivors = []
        for mutant in wanted:
            with broken(project, mutant):
                tier, catchers = bench.catchers(mutant)
            caught = f"caught by {tier}: {', '.join(catchers[:4])}" if catchers else "SURVIVED"
            print(f"{mutant.name}: {caught}", flush=True)
            survivors += [] if catchers else [mutant.name]
    count = len(wanted) - len(survivors)
    print(f"{count} of {len(wanted)} caught ({100 * count // len(wanted)} %)")
    return survivors


if __name__ == "__main__":
    sys.exit(1 if survivors_of(sys.argv[1:]) else 0)
