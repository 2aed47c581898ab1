"""The faults that most often make a bill wrong without an error, each with its result.

Put here: a table of those faults of the sources and the landing, the simulator's name for each,
and the tests that inject it and check the result.
Not here: those tests, which are beside others of their source; the bill after a fault
(`test_simulated_months`).

The table fails if it lacks a fault of the simulator with such a number, if it names a test that
does not exist, or if none of a row's tests injects its fault.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fake_gpu.faults.fault_catalogue import CATALOGUE
from tests.scenarios import test_thanos_faults as thanos
from tests.unit import test_build_unknown_devices as vendors
from tests.unit import test_collector_faults as collector
from tests.unit import test_collector_scenarios as journal
from tests.unit import test_collector_spool as spool
from tests.unit import test_devices_of_both_sources as devices
from tests.unit import test_landing as landing
from tests.unit import test_landing_crashes as crashes

SCENARIOS = Path(__file__).parents[2] / "fake_gpu" / "scenarios"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault by its number in the catalogue, and the tests of its result."""

    code: str
    what: str
    ends_as: str
    names: tuple[str, ...]  # in the simulator, or in the test's text
    shown_by: tuple[Callable[..., Any], ...]


TABLE = (
    Fault("A01", "a store is down, refuses or hangs, and no warning says so",
          "warned while it warns, then empty, a mass absence, or pods that lack a metric",
          ("store_vanishes", "store_hangs", "receiver_gone", "partial_response"),
          (thanos.test_a_store_that_vanishes_warns_first_and_is_empty_later,
           thanos.test_a_store_that_hangs_is_an_error_first_and_empty_later,
           thanos.test_a_lost_receiver_hides_pods_and_the_hour_is_pulled_again,
           thanos.test_a_receiver_lost_between_two_hours_is_a_mass_absence,
           thanos.test_a_partial_response_keeps_its_warning)),
    Fault("A02", "success, and nothing in it",
          "empty, which is not no usage; a renamed metric is asked for and absent",
          ("empty_success", "metric_renamed"),
          (thanos.test_an_empty_success_is_empty_and_not_no_usage,
           thanos.test_a_renamed_metric_is_absent_and_a_mass_absence)),
    Fault("A04", "the same sample twice, by replicas or by a second exporter",
          "kept twice, each series under its own labels, so that it is counted once",
          ("second_kube_state_metrics", "replicas_undeclared"),
          (thanos.test_duplicate_series_are_stored_twice_with_distinct_labels,)),
    Fault("A05", "averages of down-sampled blocks in the place of samples",
          "empty where raw samples are asked for and gone; degraded where averages come instead",
          ("downsampled",),
          (thanos.test_an_hour_with_down_sampled_blocks_only_has_no_samples,
           thanos.test_averages_of_down_sampled_blocks_never_count_as_samples,
           thanos.test_averages_for_a_part_of_an_hour_are_noticed_too)),
    Fault("A06", "evaluation steps look back and prolong every series",
          "right evidence: what is asked raw is prolonged by nothing",
          ("lookback_overrun",),
          (thanos.test_look_back_of_a_server_does_not_prolong_raw_samples,)),
    Fault("A08", "samples arrive after the hour was asked for",
          "counted again, and asked again where the counts differ; both versions stay",
          ("late_arrival",), (thanos.test_samples_that_arrive_late_are_found_by_a_recount,)),
    Fault("A10", "scrapes or rounds of the collector are lost",
          "holes: runs that break, and failed scrapes as a counted zero",
          ("dropped_scrapes", "exporter_down", "collector_down"),
          (thanos.test_scrapes_that_every_replica_lost_break_the_runs,
           thanos.test_a_failed_scrape_is_a_counted_zero,
           thanos.test_half_an_hour_without_samples_is_a_gap_in_every_pod)),
    Fault("B02", "the watch drops, 410, and what was deleted meanwhile is lost",
          "a list that is compared with what was open, and a gap with both ends",
          ("watch_dropped", "watch_expired", "api_unavailable", "bookmarks_missing"),
          (collector.test_an_end_behind_a_dropped_watch_is_in_a_recorded_gap,
           collector.test_a_410_leads_to_a_compared_list_and_a_gap_with_both_ends,
           collector.test_a_recoverable_fault_leaves_every_second_right,
           collector.test_missing_bookmarks_reduce_coverage_and_change_no_pod)),
    Fault("B04", "the same name with another UID",
          "two lives, each to the second",
          ("pods_replaced",), (journal.test_the_journal_equals_the_simulated_fleet,)),
    Fault("B05", "ended pods keep their requests until they are collected",
          "an end where the containers ended, or where the object was seen to be over",
          ("evicted_without_end", "terminal_pods_kept"),
          (journal.test_the_journal_equals_the_simulated_fleet,)),
    Fault("B15", "devices through claims, or under another vendor's name",
          "who held which device since when, with its product; one that nobody named is unknown",
          ("claims", "furiosa.ai/rngd"),
          (journal.test_devices_of_claims_have_their_product,
           journal.test_the_journal_equals_the_simulated_fleet,
           devices.test_a_device_is_sampled_journalled_and_counted,
           vendors.test_unknown_devices_agree_and_block_the_close)),
    Fault("B17", "cards are cut anew in the middle of an hour",
          "every capacity from the second on at which it changed, and the ends of the pods",
          ("mig_repartition",),
          (journal.test_a_repartitioned_card_ends_its_pods_to_the_second,)),
    Fault("C02", "an error although the write was durable, and a retry",
          "written once; an hour that was asked again has both attempts, and one of them counts",
          ("StoreUnusable",),
          (landing.test_an_error_after_a_write_keeps_one_copy_and_the_chain_whole,
           spool.test_a_durable_write_with_an_error_is_not_repeated,
           crashes.test_a_full_disk_at_any_write_is_reported_and_repaired)),
)  # fmt: skip


def switched_on(test: Callable[..., Any]) -> str:
    """All names in a test: text, cases, their scenarios, and local functions that it calls."""
    cases = [mark.args for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    module = inspect.getmodule(test)
    assert isinstance(module, ModuleType)
    text = inspect.getsource(test) + repr(cases)
    nearby = [value for name, value in vars(module).items() if name in test.__code__.co_names]
    text += "".join(value for value in nearby if isinstance(value, str))
    text += "".join(
        inspect.getsource(value)
        for value in nearby
        if (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    )
    used = [path for path in SCENARIOS.glob("*.yaml") if f"'{path.stem}'" in repr(cases)]
    return text + "".join(path.read_text(encoding="utf-8") for path in used)


@pytest.mark.parametrize("fault", TABLE, ids=lambda fault: fault.code)
def test_each_fault_is_injected_by_its_tests(fault: Fault) -> None:
    shown = {test.__name__: switched_on(test) for test in fault.shown_by}
    for name in fault.names:
        assert any(name in text for text in shown.values()), (fault.code, name)
    for test_name, text in shown.items():
        assert test_name.startswith("test_")
        assert any(name in text for name in fault.names), (test_name, "shows none of the faults")


def test_the_table_has_every_fault_of_its_numbers() -> None:
    codes = [fault.code for fault in TABLE]
    assert codes == sorted(set(codes))
    assert len(codes) == 13
    for kind in CATALOGUE.values():
        for fault in TABLE:
            if fault.code in kind.codes:
                assert kind.name in fault.names, (fault.code, kind.name)
