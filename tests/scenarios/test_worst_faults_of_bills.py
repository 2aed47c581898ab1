"""Faults of the warehouse, the models and the close, each with its result.

Put here: a table of every fault of the close and of the most serious ones before it, with the text
that causes it in a test, and the tests that check the result.
Not here: those tests, which are beside their subject; faults of the sources and the landing
(`test_worst_faults`).

The table fails if a number is missing, if it names a test that does not exist or does not run, or
if none of a row's tests causes the fault.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.properties import test_properties_close as months
from tests.properties import test_properties_facts as facts
from tests.scenarios.test_worst_faults import Fault, switched_on
from tests.unit import test_billing_close as close
from tests.unit import test_billing_corrections as corrections
from tests.unit import test_billing_documents as documents
from tests.unit import test_billing_focus as focus
from tests.unit import test_billing_period as period
from tests.unit import test_billing_retention as retention
from tests.unit import test_billing_statement as statement
from tests.unit import test_billing_verifier as verifier
from tests.unit import test_decisions_contradictions as contradictions
from tests.unit import test_gpu_weights as weights
from tests.unit import test_model_descriptions as models
from tests.unit import test_money as money
from tests.unit import test_quality_coverage as coverage
from tests.unit import test_quality_run as gate
from tests.unit import test_warehouse_build as build
from tests.unit import test_warehouse_crash as crash
from tests.unit import test_warehouse_switch as switch

TESTS = Path(__file__).parents[1]
NEVER_RUN = {"skip", "skipif", "xfail", "servers"}

TABLE = (
    Fault("D01", "the warehouse's log is cut, deleted or not copied along",
          "noticed by what is written outside; made again from the evidence",
          ("unlink()", "write_bytes"),
          (crash.test_a_deleted_or_missing_log_is_repaired,
           crash.test_a_truncated_log_is_noticed_and_repaired)),
    Fault("E01", "a NULL in a key, so that counting again adds",
          "nothing is added to: a period replaces itself, whole",
          ("build_period(", "switch_in(", "incremental"),
          (build.test_building_again_gives_the_same_content,
           switch.test_a_period_replaces_only_itself,
           models.test_no_model_is_incremental)),
    Fault("E02", "a row of the source is withdrawn or corrected",
          "gone from the facts with the next counting",
          ("switch_in(",), (switch.test_a_period_replaces_only_itself,)),
    Fault("E03", "only what is newer than the last is asked for, and late rows are lost",
          "no model remembers what it counted last; late evidence becomes a correction",
          ("incremental", "recount("),
          (models.test_no_model_is_incremental,
           corrections.test_late_evidence_becomes_a_line_of_the_next_open_period)),
    Fault("E04", "a batch fails, and the next run is green",
          "an hour of the calendar without a row is a gap",
          ("h != 5",), (coverage.test_hours_without_an_attempt_are_gaps,)),
    Fault("E11", "prices overlap or are missing, and the join doubles or drops",
          "refused when read; use without a price blocks; what is charged is what was used",
          ("overlap", 'gpu_class="B300"', "fct_charges"),
          (contradictions.test_validities_may_touch_and_never_overlap,
           gate.test_usage_without_a_price_blocks_and_shows_its_amount,
           close.test_close_refuses_usage_without_a_rate,
           facts.test_charges_are_exact_and_apportioned_completely)),
    Fault("F01", "closed with hours that nobody saw",
          "refused with cluster, hours and money; signed, it stands on the invoice",
          ("lose(", "accepted_gaps"),
          (close.test_close_refuses_a_month_with_a_missing_hour_and_names_it,
           close.test_an_accepted_gap_is_printed_on_the_invoice)),
    Fault("F02", "closed twice, or twice at once",
          "one event, the same documents",
          ("close(world, now=", "commit_close"),
          (close.test_a_second_close_issues_nothing,
           months.test_two_closes_at_once_give_one_result)),
    Fault("F03", "a crash halfway through the tenants",
          "closed again, it goes on: none twice, none lost",
          ("kill_at",),
          (months.test_killed_at_any_point_nothing_is_issued_twice_or_lost,
           months.test_a_close_of_many_tenants_killed_at_hundreds_of_points)),
    Fault("F04", "evidence arrives after the seal",
          "a correction in the next open period; the closed one stays",
          ("recount(",),
          (corrections.test_late_evidence_becomes_a_line_of_the_next_open_period,)),
    Fault("F05", "lines that do not add up to their invoice",
          "the total is rounded once and shared out; every row adds up",
          ("EffectiveCost", "round_lines_to_minor_units"),
          (focus.test_rows_add_up_to_the_invoice_without_a_tolerance,
           money.test_three_thirds_of_a_cent_make_an_invoice_of_one_cent)),
    Fault("F06", "a weight that was rounded before it was multiplied",
          "weights are fractions until the one rounding",
          ("mig-3g.20gb", "× 3/7 ×"),
          (weights.test_weights_are_exact_fractions,
           focus.test_rows_add_up_to_the_invoice_without_a_tolerance)),
    Fault("F07", "a credit larger than its line, or given twice",
          "refused, with both amounts",
          ("require_credits_within", "void_document"),
          (corrections.test_a_credit_above_its_charge_is_refused,
           corrections.test_a_document_is_voided_once_and_a_void_never)),
    Fault("F08", "a closed period is opened again, or priced anew by one person",
          "never opens; an amendment has two names and becomes corrections",
          ("dearer", "closed_periods"),
          (corrections.test_a_new_price_for_a_closed_month_needs_two_names,
           build.test_a_closed_period_is_refused)),
    Fault("F09", "a number is left out or given twice",
          "gapless, over kills and over months",
          ("kill_at", "INV-000003"),
          (months.test_killed_at_any_point_nothing_is_issued_twice_or_lost,
           close.test_document_numbers_continue_in_the_next_period)),
    Fault("F10", "the edge of a month in local time, a leap day, a day of 23 hours",
          "months are UTC, and their hours are all there once",
          ("Pacific/Auckland", "2028-02"),
          (period.test_the_period_of_a_local_time_is_the_one_in_utc,
           period.test_a_month_has_its_days_of_24_hours)),
    Fault("F11", "use that belongs to nobody disappears",
          "the statement closes to the capacity, with the provider's own use named",
          ("running_of_provider", "kube-system"),
          (statement.test_every_share_second_of_capacity_has_its_place,
           statement.test_the_providers_own_use_is_stated_and_not_billed)),
    Fault("F12", "somebody who can write rewrites the whole chain",
          "it has another head than the one that was attested",
          ("rates=", '"sha256": "0" * 64'),
          (verifier.test_a_rewritten_record_differs_from_the_attested_head,
           verifier.test_a_rewritten_chain_is_found_by_the_attested_head)),
    Fault("F13", "a signing key is lost, rotated or leaked",
          "there is none: seals are hashes, and their head is attested",
          ("env={}",), (verifier.test_verification_needs_no_key,)),
    Fault("F14", "PDF, CSV, JSON and FOCUS say different things",
          "all are rendered from the sealed record, and a bundle in which one differs is refused",
          ("view(document", "other_name"),
          (documents.test_the_page_shows_the_sealed_amounts,
           verifier.test_a_consistent_forgery_needs_every_number_to_fit)),
    Fault("F15", "checks that look at nothing, or did not run",
          "named checks that evaluated rows, of these very facts, or no close",
          ("dbt_tests_left_out", "update marts.fct_coverage", "some_check"),
          (gate.test_a_required_test_that_did_not_run_blocks,
           gate.test_tests_that_ran_on_other_facts_do_not_count,
           close.test_close_refuses_a_check_that_lacks_required_checks)),
    Fault("F16", "evidence is deleted while a bill can still be disputed",
          "no store of ours can; done otherwise, nothing is recorded on what is left",
          ("unlink()",),
          (retention.test_close_refuses_a_month_whose_responses_are_deleted,
           retention.test_deleted_evidence_of_a_closed_month_gives_no_credit)),
    Fault("F17", "the grace time is shortened afterwards",
          "the one that held when the month ended counts",
          ("TooEarlyToClose",),
          (close.test_close_refuses_a_month_before_its_grace_time_has_passed,
           close.test_a_shorter_grace_time_does_not_change_earlier_months)),
    Fault("F18", "an estimate is taken for final",
          "a dry run issues no number and writes nothing into the record",
          ("dry_run=True",),
          (close.test_a_dry_run_shows_every_invoice_and_blocking_finding,)),
)  # fmt: skip
GRAVEST_BEFORE_A_CLOSE = ["D01", "E01", "E02", "E03", "E04", "E11"]


def is_run(test: Callable[..., Any]) -> bool:
    """Whether the default run collects this function."""
    module = inspect.getmodule(test)
    assert module is not None
    path = Path(inspect.getfile(test))
    marks = [*getattr(test, "pytestmark", []), *_list(getattr(module, "pytestmark", []))]
    return (
        test.__name__.startswith("test_")
        and path.name.startswith("test_")
        and path.is_relative_to(TESTS)
        and getattr(module, test.__name__) is test
        and not NEVER_RUN & {mark.name for mark in marks}
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("fault", TABLE, ids=lambda fault: fault.code)
def test_each_fault_of_bills_is_caused_by_its_tests(fault: Fault) -> None:
    assert [test.__name__ for test in fault.shown_by if not is_run(test)] == []
    shown = {test.__name__: switched_on(test) for test in fault.shown_by}
    for name in fault.names:
        assert any(name in text for text in shown.values()), (fault.code, name)
    for test_name, text in shown.items():
        assert any(name in text for name in fault.names), (test_name, "does not do it")


def test_the_table_has_every_fault_of_its_numbers() -> None:
    finalisation = [f"F{number:02}" for number in range(1, 19)]
    assert [fault.code for fault in TABLE] == [*GRAVEST_BEFORE_A_CLOSE, *finalisation]
