"""The catalogue of findings: all problems of a period, and their consequences.

Put here: one entry per finding: its code, its name, whether it blocks a close, which of the three
remedies it has by default, and the text of its page in docs/findings.
Not here: when a finding is raised (`coverage`, `reconciliation`, `conservation`, `unknowns`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from domain.findings import Finding, Remedy


@dataclass(frozen=True, slots=True)
class FindingKind:
    """One entry of the catalogue."""

    code: str
    name: str
    blocks: bool
    remedy: Remedy
    means: str
    bill: str
    to_do: str

    def finding(
        self,
        *,
        where: str,
        seen: str,
        what_to_do: str = "",
        remedy: Remedy | None = None,
        cluster_id: str = "",
        tenant: str = "",
        started_at: datetime | None = None,
        ended_at: datetime | None = None,
        seconds: int = 0,
        nanos: int = 0,
    ) -> Finding:
        """One finding of this kind. The catalogue decides its consequences, not the caller."""
        return Finding(
            code=self.code,
            name=self.name,
            where=where,
            seen=seen,
            why=self.bill,
            what_to_do=what_to_do or self.to_do,
            blocks=self.blocks,
            remedy=remedy or self.remedy,
            cluster_id=cluster_id,
            tenant=tenant,
            hour_started_at=started_at,
            hour_ended_at=ended_at,
            affected_seconds=seconds,
            affected_nanos=nanos,
        )

    def page(self) -> str:
        """The text of docs/findings/CODE.md."""
        blocks = "It blocks a close." if self.blocks else "It does not block a close."
        return (
            f"# {self.code}: {self.name}\n\n"
            f"## What it means\n\n{self.means}\n\n"
            f"## Effect on bills\n\n{self.bill} {blocks}\n\n"
            f"## What to do\n\n{self.to_do}\n\n{_REMEDIES[self.remedy]}\n"
        )


_REMEDIES = {
    Remedy.BACKFILL: "Kind of remedy: `backfill`. Run the backfill command that the finding "
    "prints; where the source keeps no history, accept the gap.",
    Remedy.NONE: "Kind of remedy: `none`. The finding needs no action before a close.",
    Remedy.CORRECT: "Kind of remedy: `correct`. Correct the cause, or record a dated decision; a "
    "decision is printed on every affected invoice.",
}

_KINDS = (
    FindingKind(
        "GAP-001",
        "hour_not_measured",
        blocks=True,
        remedy=Remedy.BACKFILL,
        means="None of the sources that are expected for this cluster covers all of this time. "
        "Each of them is missing, or its response is incomplete: it has a warning, fewer stores, "
        "or fewer series than before. A pod that starts and ends inside such a gap leaves no "
        "trace.",
        bill="Use in this time may be missing from the bills; the amount is not known.",
        to_do="`gpu-ledger gaps P` prints the command that backfills the gap or, if the source no "
        "longer has this time, the command that accepts it: treatment, reason and approver are "
        "printed on every invoice of the period.",
    ),
    FindingKind(
        "GAP-002",
        "samples_missing",
        blocks=False,
        remedy=Remedy.NONE,
        means="Samples that were due in this time are missing, while the journal was unbroken. A "
        "single missed scrape is enough for this finding. It names the cause, if the other "
        "evidence of the hour shows it:\n\n"
        "- `target down`, `metric not allowed or renamed`, `push to the hub lost`, `store missing "
        "without a warning`, `query failed`.\n"
        "- `never asked`: the hour was not queried.\n"
        "- `response not complete`: the response has a warning, fewer stores or fewer series than "
        "before, and no sample between two others is missing.\n"
        "- `label renamed`: samples lack the label of their pod, node or device.\n"
        "- `value refused`: the value of a sample is not a count.\n"
        "- `label invalid`: Kubernetes does not accept a UID or a name in the labels.\n\n"
        "`fct_refused_samples` has the samples of the last three causes.",
        bill="Amounts come from the lifecycle alone, to the second; they count towards the "
        "one-source limit of each tenant.",
        to_do="Nothing has to be done. `gpu-ledger pull` for these hours may still find the "
        "samples, and the amounts are then confirmed.",
    ),
    FindingKind(
        "GAP-003",
        "journal_missing",
        blocks=False,
        remedy=Remedy.NONE,
        means="No collector watched the cluster in this time, while samples were complete. An "
        "API server has no history, so the journal of this time cannot be backfilled. The cause "
        "is `collector lost` if the journal has nothing of the hour, else `journal gap`.",
        bill="Starts and ends in this time are known to the sampling interval only; the "
        "uncertainty is printed and counts towards the uncertainty limit of each tenant.",
        to_do="Nothing has to be done for this period. Find out why the collector did not run, so "
        "that both sources measure the next period.",
    ),
    FindingKind(
        "GAP-004",
        "gap_accepted",
        blocks=False,
        remedy=Remedy.NONE,
        means="A dated decision accepts time that no expected source covers.",
        bill="Use in this time is not billed; treatment, reason and approver are printed on "
        "every invoice of the period.",
        to_do="Nothing has to be done. If the decision is removed before the close, the gap "
        "blocks again.",
    ),
    FindingKind(
        "GAP-005",
        "one_source_limit_exceeded",
        blocks=True,
        remedy=Remedy.BACKFILL,
        means="Too large a part of a tenant's weighted seconds is in gaps of the samples, where "
        "the journal is the only source. The policy `one_source_limit` sets the largest part, 5 % "
        "without a decision.",
        bill="The amounts may be right, but no second source confirms this part of the use.",
        to_do="Pull the hours again, or raise the limit with a dated row in policies.csv. With a "
        "limit of 1, the journal alone is sufficient.",
    ),
    FindingKind(
        "GAP-006",
        "uncertainty_limit_exceeded",
        blocks=True,
        remedy=Remedy.CORRECT,
        means="A tenant has more uncertain seconds than the policy `uncertainty_limit` allows: "
        "0.5 % of its weighted seconds without a decision. Samples alone show the start or end of "
        "a pod to the sampling interval only. In a cluster whose journal is expected, the seconds "
        "of that interval are uncertain.",
        bill="The true amount is within the printed uncertainty, which is above the limit.",
        to_do="Raise the limit with a dated row in policies.csv. A limit of 1 accepts any "
        "uncertainty. The limit is printed on every invoice.",
    ),
    FindingKind(
        "GAP-007",
        "metric_never_seen",
        blocks=False,
        remedy=Remedy.NONE,
        means="A required metric has no sample in the whole period, while other metrics of the "
        "cluster have samples. The metric is not on the cluster's allow-list, or has another name "
        "there. The metric of resource requests is required only while the journal, the scheduler, "
        "telemetry or another metric shows a pod with devices.",
        bill="Without the metric, the samples do not show which pods ran. Amounts come from the "
        "lifecycle, or from the other metrics.",
        to_do="Add the metric to the allow-list of the cluster's monitoring (`gpu-ledger doctor` "
        "prints it). This period does not change.",
    ),
    FindingKind(
        "GAP-008",
        "attribution_lost",
        blocks=False,
        remedy=Remedy.NONE,
        means="Telemetry of a busy device names no pod, although one was allocated: the exporter "
        "was up and had lost its connection to the kubelet.",
        bill="None: telemetry never decides an amount. The idle time of these hours is not known.",
        to_do="Check the log of the exporter on that node; after a restart it names the pods "
        "again.",
    ),
    FindingKind(
        "GAP-009",
        "single_pods_missing",
        blocks=False,
        remedy=Remedy.NONE,
        means="Samples of single pods that were due in these hours are missing, while those of "
        "other pods are there: `fct_coverage.pod_missing_count` has their number by hour. A "
        "receiver or a scrape loses single series now and then.",
        bill="None: each missing sample lies between two samples of the same pod, which prove the "
        "time between them.",
        to_do="Nothing has to be done. If the number grows, look for out-of-order or rejected "
        "samples in the logs of the receivers.",
    ),
    FindingKind(
        "USE-001",
        "device_used_unallocated",
        blocks=False,
        remedy=Remedy.CORRECT,
        means="A device was busy while no pod held it: a pod uses devices that it did not request, "
        "a process runs on the node itself, or both sources missed an allocation.",
        bill="This use is not billed.",
        to_do="Look for privileged pods and NVIDIA_VISIBLE_DEVICES on the node. If the device "
        "comes from a claim or another resource name, add that resource to products.csv.",
    ),
    FindingKind(
        "USE-002",
        "device_reported_twice",
        blocks=False,
        remedy=Remedy.NONE,
        means="In consecutive hours, a device reported the same reading under the name that DCGM "
        "has used since 4.7 and under the earlier name: two dcgm-exporters run on its node. One "
        "hour with both names is an upgrade and no finding.",
        bill="None: telemetry never decides an amount. Both names are one reading, counted once.",
        to_do="Remove one of the two dcgm-exporters from the node; they share the profiling "
        "counters of the hardware and disturb each other.",
    ),
    FindingKind(
        "REC-001",
        "sources_disagree",
        blocks=True,
        remedy=Remedy.CORRECT,
        means="The evidence about a pod contradicts itself. One of these is the case:\n\n"
        "- Samples and journal differ. There are samples while the pod did not run by the journal, "
        "expected samples are missing, the journal does not have the pod, or the numbers of "
        "devices differ.\n"
        "- Samples differ from each other. One pod UID has two namespaces, names or nodes, one "
        "container has two requests, requests and scheduler have different numbers of devices, or "
        "the node has two products at one time.\n"
        "- In a cluster without a journal, a pod has requests but no phase, or a start before its "
        "creation.\n\n"
        "`fct_contradictions` has the statements.",
        bill="One of the statements is wrong, and the amount depends on it.",
        to_do="`gpu-ledger check P` names the pod, the time, and the statement of each source. "
        "Accept one of them: `gpu-ledger accept-gap --cluster CLUSTER_ID --source SOURCE --from "
        "FROM --to UNTIL --pod POD_UID --treatment TREATMENT --reason WHY --by NAME` (treatment "
        "bill_lifecycle, bill_samples or bill_nothing).",
    ),
    FindingKind(
        "REC-002",
        "allocation_not_seen",
        blocks=True,
        remedy=Remedy.BACKFILL,
        means="A pod existed before a gap of all sources, and no source has it afterwards: its end "
        "is not known.",
        bill="This time is not billed until it is backfilled or accepted.",
        to_do="Pull the hours again; if the source has no data, accept them: `gpu-ledger "
        "accept-gap --cluster CLUSTER_ID --source SOURCE --from FROM --to UNTIL --pod POD_UID "
        "--treatment bill_nothing --reason WHY --by NAME`.",
    ),
    FindingKind(
        "REC-003",
        "too_short_to_be_sampled",
        blocks=False,
        remedy=Remedy.NONE,
        means="A pod started and ended between two scrapes, so no sample shows it. The journal "
        "does.",
        bill="It is billed by its lifecycle, to the second.",
        to_do="Nothing has to be done.",
    ),
    FindingKind(
        "REC-004",
        "dispute_accepted",
        blocks=False,
        remedy=Remedy.NONE,
        means="The sources contradict each other, and a dated decision selects one source.",
        bill="The amount follows the decision, which is printed on the affected invoices.",
        to_do="Nothing has to be done.",
    ),
    FindingKind(
        "PRICE-001",
        "usage_without_price",
        blocks=True,
        remedy=Remedy.CORRECT,
        means="There is a price list, but no row of it covers this use: no rate for this GPU "
        "class and MIG profile, in this cluster, at this time.",
        bill="This use would be free.",
        to_do="Add a row to rates.csv for this class, MIG profile and time.",
    ),
    FindingKind(
        "PRICE-002",
        "price_change_needs_second_name",
        blocks=True,
        remedy=Remedy.CORRECT,
        means="A rate differs by more than 25 % from the one before it, and its row in rates.csv "
        "has no second name. Prices wrong by a factor of ten look like this.",
        bill="Every line of this class and MIG profile would be wrong by the same factor.",
        to_do="Let a second person check the rate and enter the name in `second_name`.",
    ),
    FindingKind(
        "EDIT-001",
        "closed_decision_edited",
        blocks=True,
        remedy=Remedy.CORRECT,
        means="A closed period was billed by a row of a decision table, and the row was edited or "
        "removed since then. To change a decision, end its row and add a new row with a later "
        "start.",
        bill="The closed period keeps its amounts. The checked month would be billed by the edited "
        "row, and its invoices would not show the change.",
        to_do="Restore the row. Set its `valid_until` to the date of the change, and add a row "
        "that begins on that date. To correct the closed period itself, add a row "
        "to amendments.csv with two names, then run `gpu-ledger recount P`.",
    ),
    FindingKind(
        "DEV-001",
        "device_unknown",
        blocks=True,
        remedy=Remedy.CORRECT,
        means="Pods used a device that belongs to no GPU class: an unknown product, resource "
        "name or MIG profile.",
        bill="The seconds are counted, but they have no price.",
        to_do="Add the product to products.csv (one row), then `gpu-ledger refresh`.",
    ),
    FindingKind(
        "CONS-001",
        "sums_differ",
        blocks=True,
        remedy=Remedy.CORRECT,
        means="Two sums that are equal by definition differ.",
        bill="At least one of the two numbers is wrong.",
        to_do="Rebuild the period with `gpu-ledger refresh`. If it remains, it is a defect of "
        "gpu-ledger: send the output of `gpu-ledger support-bundle`.",
    ),
    FindingKind(
        "CONS-002",
        "capacity_not_conserved",
        blocks=True,
        remedy=Remedy.CORRECT,
        means="The running, held, idle, unsold, unhealthy, withdrawn and unmeasured share-seconds "
        "of a node do not add up to its installed capacity times the measured time.",
        bill="Something was counted twice, or not at all.",
        to_do="Look at the node with `gpu-ledger nodes`, and at its labels in that hour; accept "
        "nothing before the cause is known.",
    ),
    FindingKind(
        "CONS-003",
        "more_allocated_than_capacity",
        blocks=True,
        remedy=Remedy.CORRECT,
        means="At one instant more cards of a node, or more of their shares, were allocated than "
        "the node has.",
        bill="At least one pod on this node is billed for a device that it did not have.",
        to_do="Look at the node with `gpu-ledger nodes` and at the two sources of its pods.",
    ),
    FindingKind(
        "TEN-001",
        "namespace_recreated",
        blocks=False,
        remedy=Remedy.CORRECT,
        means="A namespace was deleted and created again: the same name, another UID, perhaps "
        "another owner.",
        bill="The tenant is the namespace by name; both namespaces are on one invoice unless a "
        "dated decision separates them.",
        to_do="Find the owner of the namespace; if it has another owner, add a dated row to "
        "tenants.csv.",
    ),
    FindingKind(
        "BUD-001",
        "budget_differs_between_clusters",
        blocks=False,
        remedy=Remedy.NONE,
        means="A tenant has GpuBudgets of one name in several clusters, and they are not the same. "
        "A budget limits the tenant's cost in all clusters, so that only one of these can count.",
        bill="No amount depends on it. The GpuBudget of the hub counts (column `role` of "
        "clusters.csv), else the one that was created first; the others are ignored.",
        to_do="Make the objects equal, or give one of them another name. `dim_budgets` has both.",
    ),
    FindingKind(
        "BUD-002",
        "budget_not_counted",
        blocks=False,
        remedy=Remedy.NONE,
        means="A GpuBudget is invalid, its currency differs from that of the prices, or its tenant "
        "has more than 50 GpuBudgets.",
        bill="No amount depends on it. The budget is ignored, and no notification is sent.",
        to_do="Ask the tenant to correct the GpuBudget. The definition in deploy/budgets refuses "
        "invalid ones: `kubectl apply -k deploy/budgets` in that cluster.",
    ),
    FindingKind(
        "JRN-001",
        "journal_contradicts_itself",
        blocks=False,
        remedy=Remedy.NONE,
        means="The API of a cluster made two statements that cannot both be true. For example, the "
        "end of a pod changed, a deleted pod exists again, an object was missing in one list and "
        "present in the next, or the clock or the resource version went back.",
        bill="The amounts of these objects follow a fixed rule: the earliest start and the first "
        "end count, and an ended pod stays ended.",
        to_do="Look at the rows in `fct_contradictions`. Many at one instant point to a control "
        "plane that was restored from a backup, or to a clock that was set.",
    ),
    FindingKind(
        "CHECK-001",
        "check_failed",
        blocks=True,
        remedy=Remedy.CORRECT,
        means="A named check found rows that break its rule.",
        bill="The facts contradict a rule that holds for every correct month.",
        to_do="See the check's rows with `gpu-ledger check P -o json`; correct the cause, then "
        "refresh and check again.",
    ),
    FindingKind(
        "CHECK-002",
        "check_not_executed",
        blocks=True,
        remedy=Remedy.CORRECT,
        means="A required check did not run, or evaluated no row. A check that evaluates no row "
        "proves nothing.",
        bill="Other faults may not have been found.",
        to_do="Run `gpu-ledger refresh --period P` and `gpu-ledger check P` again.",
    ),
)

CATALOGUE: Mapping[str, FindingKind] = MappingProxyType({kind.name: kind for kind in _KINDS})
