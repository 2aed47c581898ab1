"""Models broken on purpose, one at a time: which test says so? `python -m tests.mutants [NAME…]`

Put here: the mutants, and running the comparison with the truth on each.
Not here: the comparison (`tests/scenarios/test_facts_equal_truth.py`), or why some survive
(`docs/explanation/mutants.md`).

The models are copied and one text in one of them is replaced. A mutant is caught when it cannot be
built, when a data test of dbt fails, or when a fact is not the truth. Estates, evidence and
decisions are the same for all, so a run takes a build per mutant: about twenty seconds each.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from domain.errors import LedgerError
from tests.decisions_by_hand import decided, table
from tests.estates import estate as read
from tests.lived_estates import clusters_csv, live
from tests.random_estates import scenario
from tests.scenarios import against_truth as truth
from tests.scenarios import test_facts_equal_truth as compared
from warehouse import dbt_run
from warehouse.build import build_period
from warehouse.home import Home
from warehouse.project import dbt_project_dir

SCENARIOS = (
    "cards_cut_anew",
    "every_way_to_share",
    "evicted_without_an_end",
    "exporter_outage",
    "init_and_sidecars",
    "node_drained_mid_hour",
    "relabelled_node",
    "restarts_and_crash_loops",
)
SEEDS = range(1, 10)
NANOS_PER_SECOND = 1_000_000  # 3.60 an hour
INT = "models/intermediate"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One text of one file, and what it is replaced with."""

    name: str
    file: str
    before: str
    after: str


MUTANTS = (
    Mutant("an_end_over_the_hour", f"{INT}/int_stretches_split_to_hours.sql",
           "least(hours.ended_second, segments.ended_second)", "segments.ended_second"),
    Mutant("a_start_before_the_hour", f"{INT}/int_stretches_split_to_hours.sql",
           "greatest(hours.started_second, segments.started_second)", "segments.started_second"),
    Mutant("every_restart_is_a_start", f"{INT}/int_pods_observed.sql",
           "min(observations.started_second)", "max(observations.started_second)"),
    Mutant("an_ended_pod_goes_on", f"{INT}/int_pods_observed.sql",
           " or phase in ('Succeeded', 'Failed')", ""),
    Mutant("requests_are_added_up", f"{INT}/int_journal_requests.sql",
           "max(requests.device_count)", "sum(requests.device_count)"),
    Mutant("a_claim_without_distinct", f"{INT}/int_claimed_devices.sql",
           "select distinct\n        claims.cluster_id", "select\n        claims.cluster_id"),
    Mutant("an_extended_claim_counts_twice", f"{INT}/int_claimed_devices.sql",
           "and not is_of_extended_resource", ""),
    Mutant("labels_of_an_hour_later", f"{INT}/int_allocations_classified.sql",
           "settled_second < label_states.valid_until_second",
           "settled_second + 3600 < label_states.valid_until_second"),
    Mutant("labels_without_an_end", f"{INT}/int_allocations_classified.sql",
           "and allocations.settled_second < label_states.valid_until_second", ""),
    Mutant("each_sharer_pays_the_whole", f"{INT}/int_allocations_priced.sql",
           "holder_count\n        * case", "1\n        * case"),
    Mutant("levels_forget_what_was", f"{INT}/int_node_card_levels.sql",
           "sum(running_change) over node as running_cards",
           "max(running_change) over node as running_cards"),
    Mutant("the_least_of_the_hour", "models/marts/fct_node_hours.sql",
           "max(running_cards) as gpu_count_max", "min(running_cards) as gpu_count_max"),
    Mutant("a_held_claim_runs", f"{INT}/int_device_spans.sql",
           "claim_levels.running_count > 0", "claim_levels.running_count >= 0"),
    Mutant("parts_of_a_card_rounded_down", f"{INT}/int_card_changes.sql",
           "running_level + devices_per_card - 1", "running_level"),
    Mutant("half_an_hour_to_the_east", "macros/seconds.sql",
           "(epoch_us({{ instant }}) // 1000000)", "(epoch_us({{ instant }}) // 1000000 + 1800)"),
    Mutant("hours_named_half_an_hour_late", "macros/seconds.sql",
           "cast({{ second }} as bigint) * 1000000",
           "(cast({{ second }} as bigint) + 1800) * 1000000"),
    Mutant("every_answer_counts", f"{INT}/int_attempts_used.sql", " and recency = 1", ""),
    Mutant("a_charge_of_one_device", f"{INT}/int_charges.sql",
           "billable_seconds * device_count", "billable_seconds"),
    Mutant("a_nano_is_lost", f"{INT}/int_pieces_apportioned.sql",
           "remainder_rank <= left_nanos", "remainder_rank < left_nanos"),
    Mutant("an_hour_of_3601_seconds", "macros/price_nanos.sql", "* 3600)", "* 3601)"),
    Mutant("rates_join_without_class", f"{INT}/int_allocations_priced.sql",
           "and allocations.gpu_class = rate_spans.gpu_class", ""),
    Mutant("namespaces_are_mixed", f"{INT}/int_allocations.sql",
           "on paired.pod_number = pods.pod_number", "on paired.pod_number = pods.pod_number + 1"),
    Mutant("the_end_is_when_it_was_told", f"{INT}/int_allocations_from_lifecycle.sql",
           "then least(ended_second, first_ended_second)", "then first_ended_second"),
    Mutant("held_is_running", f"{INT}/int_allocations_reconciled.sql",
           "'held' as allocation_state", "'running' as allocation_state"),
)  # fmt: skip


@contextlib.contextmanager
def broken(project: Path, mutant: Mutant | None) -> Iterator[None]:
    """While this lasts, builds use a copy of the models with one text replaced.

    The copy stays in one place: dbt keeps what it parsed by the place of its files.
    """
    original = dbt_run.dbt_project_dir
    dbt_run.dbt_project_dir = lambda: project
    path = project / (mutant.file if mutant else "dbt_project.yml")
    text = path.read_text(encoding="utf-8")
    if mutant is not None:
        assert mutant.before in text, f"{mutant.name}: {mutant.file} has changed"
        path.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")
        dbt_run.dbt_project_dir = original


class Bench:
    """One home with evidence, and the comparison of what is counted of it."""

    def __init__(self, folder: Path) -> None:
        self.home = Home.create(folder / "home")
        self.estates = {n: e for n, e in compared.library().items() if n in SCENARIOS}
        self.estates |= {f"seed {seed}": read(scenario(seed)) for seed in SEEDS}
        self.unwatched = {}
        for number, (name, estate) in enumerate(self.estates.items()):
            if name.startswith("seed") and number % 3 == 0:
                since = estate.started_at + 3000
                self.unwatched[name] = (since, since + 1800)
            spans = [self.unwatched[name]] if name in self.unwatched else []
            live(self.home, estate, unwatched=spans)
            if number % 4 == 0:  # asked twice: the later answer alone counts
                live(self.home, estate, unwatched=spans)
        classes = sorted({row[0] for row in _classes()})
        rates = "\n".join(f",{name},whole,EUR,3.60,2026-01-01,,|," for name in classes)
        self.decisions = decided(
            clusters_csv(self.estates.values()), table("rates", *rates.splitlines())
        )

    def catchers(self) -> list[str]:
        """What says that something is wrong; nothing when all is well."""
        try:
            build = build_period(
                self.home, compared.PERIOD, self.decisions, closed_periods=frozenset()
            )
        except LedgerError as refused:
            return [f"not built: {refused.seen[:200]}"]
        played = compared.Played(
            self.estates, self.unwatched, self.home, build, truth.counted_facts(self.home)
        )
        found = [test.name for test in build.failed_tests]
        for test in (
            compared.test_with_an_unbroken_journal_every_fact_is_the_truth,
            compared.test_a_flag_is_explained_by_a_fault_that_was_there,
            compared.test_after_a_broken_watch_a_pod_is_right_or_its_uncertainty_holds_the_truth,
            self.money_is_what_was_weighed,
        ):
            try:
                test(played)
            except AssertionError:
                found.append(test.__name__)
        return found

    def money_is_what_was_weighed(self, played: compared.Played) -> None:
        """Weighted seconds of the truth, times the one price; each charge is rounded once."""
        statement = "select cluster_id, count(*), sum(cost_nanos) from marts.fct_charges group by 1"
        charged = {c: (n, int(nanos)) for c, n, nanos in truth.ask(self.home, statement)}
        for estate in played.watched().values():
            true = truth.true_facts(estate)["tenant-periods"]
            for cluster in estate.clusters:
                weighed = sum((v[2] for k, v in true.items() if k[0] == cluster.cluster_id),
                              Fraction(0))  # fmt: skip
                count, nanos = charged.get(cluster.cluster_id, (0, 0))
                assert abs(nanos - weighed * NANOS_PER_SECOND) * 2 <= count


def _classes() -> list[tuple[str, ...]]:
    from warehouse.project import seed_text

    header, *rows = seed_text("gpu_products").splitlines()
    place = header.split(",").index("gpu_class")
    return [(row.split(",")[place],) for row in rows if row and not row.startswith("#")]


def main(names: list[str]) -> int:
    wanted = [m for m in MUTANTS if not names or m.name in names]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        project = Path(folder) / "project"
        shutil.copytree(dbt_project_dir(), project)
        with broken(project, None):
            healthy = bench.catchers()
        assert not healthy, f"unbroken models are not right: {healthy}"
        survivors = []
        for mutant in wanted:
            with broken(project, mutant):
                catchers = bench.catchers()
            print(f"{mutant.name}: {', '.join(catchers[:4]) or 'SURVIVED'}", flush=True)
            survivors += [] if catchers else [mutant.name]
    caught = len(wanted) - len(survivors)
    print(f"{caught} of {len(wanted)} caught ({100 * caught // len(wanted)} %)")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
