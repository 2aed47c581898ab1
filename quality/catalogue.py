"""The catalogue of findings: everything that can be wrong with a period, and what follows from it.

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
class Kind:
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
        """One occurrence; what follows from it comes from the catalogue, never from the caller."""
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
            f"## Does it change a bill\n\n{self.bill} {blocks}\n\n"
            f"## What to do\n\n{self.to_do}\n\n{_REMEDIES[self.remedy]}\n"
        )


_REMEDIES = {
    Remedy.BACKFILL: "Remedy: run the backfill command that the finding prints; where the source "
    "keeps no history, accept the gap.",
    Remedy.COVERED: "Remedy: none needed, the other source saw the same time.",
    Remedy.SIGN: "Remedy: only a person can settle it, by a dated decision that is printed on "
    "every invoice it touches.",
}

_KINDS = (
    Kind(
        "GAP-001",
        "hour_not_measured",
        blocks=True,
        remedy=Remedy.BACKFILL,
        means="No source that is expected for this cluster saw the whole of this time: samples "
        "and journal were both missing, or the only expected one was, or its answer is doubted "
        "as a whole: warned, of fewer stores or with fewer series than before. A pod that lived "
        "and died inside such a gap leaves no trace anywhere.",
        bill="Use in this time may be missing from the bills, and nobody can say how much.",
        to_do="`gpu-ledger gaps P` prints the command that asks the source again or, where it no "
        "longer has this time, the one that signs for the gap: treatment, reason and approver "
        "are printed on every invoice of the period.",
    ),
    Kind(
        "GAP-002",
        "samples_missing",
        blocks=False,
        remedy=Remedy.COVERED,
        means="Samples that were due in this time are missing, while the journal was unbroken. "
        "A single missed scrape is enough to be listed here. The cause is named, as far as what "
        "else was there tells it: target down, metric not allowed or renamed, push to the hub "
        "lost, store gone in silence, query failed, never asked; answer not whole, where no "
        "sample between others is missing and yet the answer itself is doubted (a warning, fewer "
        "stores or fewer series than before); or label renamed and value "
        "refused, where samples were there and nobody can tell of which pod, node or device they "
        "speak, or their value is no count; or label invalid, where a UID or a name is none that "
        "Kubernetes accepts (`fct_refused_samples` has them).",
        bill="Amounts rest on the lifecycle alone here, to the second; they count towards the "
        "one-source limit of each tenant.",
        to_do="Nothing has to be done. `gpu-ledger pull` for these hours may still bring the "
        "samples and turn the amounts into confirmed ones.",
    ),
    Kind(
        "GAP-003",
        "journal_missing",
        blocks=False,
        remedy=Remedy.COVERED,
        means="No collector watched the cluster in this time, while samples were complete. No "
        "API server answers for the past, so the journal of this time cannot be backfilled. The "
        "cause is `collector lost` where it saw nothing of the hour, else `journal gap`.",
        bill="Starts and ends in this time are known to the sampling interval only; the "
        "uncertainty is printed and counts towards the uncertainty limit of each tenant.",
        to_do="Nothing has to be done for this period. Find out why the collector was away, so "
        "that the next one is measured by both sources.",
    ),
    Kind(
        "GAP-004",
        "gap_signed",
        blocks=False,
        remedy=Remedy.SIGN,
        means="Time that no expected source saw whole was accepted by a dated decision.",
        bill="What was not seen is not billed; treatment, reason and approver are printed on "
        "every invoice of the period.",
        to_do="Nothing has to be done. Taking the decision back before the close makes the gap "
        "block again.",
    ),
    Kind(
        "GAP-005",
        "one_source_limit_exceeded",
        blocks=True,
        remedy=Remedy.BACKFILL,
        means="More of a tenant's weighted seconds than the policy `one_source_limit` allows "
        "(5 % unless decided otherwise) lie in holes of the samples, so that only the journal "
        "vouches for them.",
        bill="The amounts may be right, but the second source is missing for too much of them.",
        to_do="Pull the hours again, or raise the limit by a dated row in policies.csv; 1 accepts "
        "that the journal alone vouches for all of it.",
    ),
    Kind(
        "GAP-006",
        "uncertainty_limit_exceeded",
        blocks=True,
        remedy=Remedy.SIGN,
        means="The uncertain seconds of a tenant, of starts and ends that only samples saw, are "
        "a larger share of its weighted seconds than the policy `uncertainty_limit` allows "
        "(0.5 % unless decided otherwise), in clusters whose journal is expected.",
        bill="The true amount lies inside the printed uncertainty, which is wider than agreed.",
        to_do="Raise the limit by a dated row in policies.csv; 1 accepts any uncertainty. It is "
        "printed on every invoice.",
    ),
    Kind(
        "GAP-007",
        "metric_never_seen",
        blocks=False,
        remedy=Remedy.COVERED,
        means="A metric that the ledger needs was due and has no sample in the whole period, while "
        "others of the cluster have: it is not on the cluster's allow-list, or has another name "
        "there. Requests are due only while the journal, the scheduler, telemetry or another "
        "metric knows a pod that has devices.",
        bill="Without it the samples cannot tell which pods ran; amounts rest on the lifecycle, or "
        "on what the other metrics show.",
        to_do="Add the metric to the allow-list of the cluster's monitoring (`gpu-ledger doctor` "
        "prints it); this period stays as it is.",
    ),
    Kind(
        "GAP-008",
        "attribution_lost",
        blocks=False,
        remedy=Remedy.COVERED,
        means="Telemetry of a busy device names no pod, although one was allocated: the exporter "
        "was up and had lost its connection to the kubelet.",
        bill="None: telemetry never decides an amount. The idle time of these hours is not known.",
        to_do="Look at the exporter's log on that node; restarting it brings the names back.",
    ),
    Kind(
        "GAP-009",
        "single_pods_missing",
        blocks=False,
        remedy=Remedy.COVERED,
        means="Samples of single pods that were due in these hours are missing, while those of "
        "other pods are there: `fct_coverage.pod_missing_count` has their number by hour. A "
        "receiver or a scrape loses single series now and then.",
        bill="None: each missing sample lies between two samples of the same pod, which prove the "
        "time between them.",
        to_do="Nothing has to be done. If the number grows, look for out-of-order or rejected "
        "samples in the logs of the receivers.",
    ),
    Kind(
        "USE-001",
        "device_used_unallocated",
        blocks=False,
        remedy=Remedy.SIGN,
        means="A device was busy while nobody held it: a pod reaches devices that it did not ask "
        "for, a process runs on the node itself, or both sources missed an allocation.",
        bill="This use is billed to nobody.",
        to_do="Look on the node for privileged pods and for NVIDIA_VISIBLE_DEVICES; if a claim or "
        "another resource name is behind it, the ledger has to know that resource.",
    ),
    Kind(
        "USE-002",
        "device_reported_twice",
        blocks=False,
        remedy=Remedy.COVERED,
        means="A device reported the same reading under two names in consecutive hours, those of "
        "DCGM before and since 4.7: two dcgm-exporters run on its node. One hour with both names "
        "is an upgrade and no finding.",
        bill="None: telemetry never decides an amount. Both names are one reading, counted once.",
        to_do="Remove one of the two dcgm-exporters from the node; they also share the hardware's "
        "profiling counters, and disturb each other.",
    ),
    Kind(
        "REC-001",
        "sources_disagree",
        blocks=True,
        remedy=Remedy.SIGN,
        means="The evidence about a pod contradicts itself. The two sources differ: samples where "
        "the journal says that it did not run, none where they were due, a pod the journal never "
        "saw, or another number of devices. Or the samples differ among themselves: two "
        "namespaces, names or nodes of one pod UID, two requests of one container, another number "
        "of devices by the scheduler, two products of its node at one time; or, without a journal, "
        "requests without a phase, or a start before the pod was there "
        "(`fct_contradictions` has the statements).",
        bill="One of the statements is wrong, and the amount depends on which.",
        to_do="`gpu-ledger check P` names the pod, the time, and what each source says. Accept "
        "one of them: `gpu-ledger accept-gap --cluster CLUSTER_ID --source SOURCE --from FROM "
        "--to UNTIL --pod POD_UID --treatment TREATMENT --reason WHY --by NAME` (treatment "
        "bill_lifecycle, bill_samples or bill_nothing).",
    ),
    Kind(
        "REC-002",
        "allocation_not_seen",
        blocks=True,
        remedy=Remedy.BACKFILL,
        means="A pod was alive before a time that no source saw, and nothing was seen of it "
        "afterwards: nobody knows when it ended.",
        bill="This time is billed as nothing until it is backfilled or accepted.",
        to_do="Pull the hours again; if that brings nothing, sign for them: `gpu-ledger accept-gap "
        "--cluster CLUSTER_ID --source SOURCE --from FROM --to UNTIL --pod POD_UID --treatment "
        "bill_nothing --reason WHY --by NAME`.",
    ),
    Kind(
        "REC-003",
        "too_short_to_be_sampled",
        blocks=False,
        remedy=Remedy.COVERED,
        means="A pod lived between two scrapes, so that no sample could see it. The journal did.",
        bill="It is billed from its lifecycle, to the second.",
        to_do="Nothing has to be done.",
    ),
    Kind(
        "REC-004",
        "dispute_accepted",
        blocks=False,
        remedy=Remedy.SIGN,
        means="The sources contradicted each other, and a dated decision says which one counts.",
        bill="The amount follows the decision, which is printed on the invoices it touches.",
        to_do="Nothing has to be done.",
    ),
    Kind(
        "PRICE-001",
        "usage_without_price",
        blocks=True,
        remedy=Remedy.SIGN,
        means="There is a price list, but no row of it covers this use: no rate for this GPU "
        "class and shape, in this cluster, at this time.",
        bill="This use would be given away for nothing.",
        to_do="Add a row to rates.csv for this class, shape and time.",
    ),
    Kind(
        "PRICE-002",
        "price_change_needs_second_name",
        blocks=True,
        remedy=Remedy.SIGN,
        means="A rate differs by more than 25 % from the one before it, and its row in rates.csv "
        "carries no second name. Prices wrong by a factor of ten look exactly like this.",
        bill="Every line of this class and shape would be wrong by the same factor.",
        to_do="Let a second person check the rate and write their name in `second_name`.",
    ),
    Kind(
        "EDIT-001",
        "closed_decision_edited",
        blocks=True,
        remedy=Remedy.SIGN,
        means="A row of a decision table that a closed period was billed by is not in the table "
        "any more: it was edited in place, or removed. A decision changes by a new row with a date "
        "of its own.",
        bill="The closed period keeps its amounts. The month that is checked would be billed by "
        "the edited row, and nothing on its invoices would say that it changed.",
        to_do="Put the row back as it was, end it with `valid_until`, and add a row from then on. "
        "To correct the closed period itself, add a row to amendments.csv with two names, then "
        "run `gpu-ledger recount P`.",
    ),
    Kind(
        "DEV-001",
        "device_unknown",
        blocks=True,
        remedy=Remedy.SIGN,
        means="Pods used a device that belongs to no GPU class: an unknown product, resource "
        "name or MIG profile.",
        bill="The seconds are counted, but nobody knows what they cost.",
        to_do="Add the product to products.csv (one row), then `gpu-ledger refresh`.",
    ),
    Kind(
        "CONS-001",
        "sums_differ",
        blocks=True,
        remedy=Remedy.SIGN,
        means="Two sums that are the same thing by definition are not the same number.",
        bill="At least one of the two numbers would be printed although it is wrong.",
        to_do="Rebuild the period with `gpu-ledger refresh`. If it stays, it is a fault of "
        "gpu-ledger: send `gpu-ledger support-bundle`.",
    ),
    Kind(
        "CONS-002",
        "capacity_not_conserved",
        blocks=True,
        remedy=Remedy.SIGN,
        means="Running, held, idle, unsold, unhealthy and withdrawn share seconds of a node do "
        "not add up to its installed capacity times the measured time.",
        bill="Something was counted twice, or not at all.",
        to_do="Look at the node with `gpu-ledger nodes`, and at its labels in that hour; sign "
        "nothing before the cause is known.",
    ),
    Kind(
        "CONS-003",
        "more_allocated_than_capacity",
        blocks=True,
        remedy=Remedy.SIGN,
        means="More of a node's cards, or of their shares, was allocated at one instant than the "
        "node has.",
        bill="At least one pod on this node is billed for a device that it did not have.",
        to_do="Look at the node with `gpu-ledger nodes` and at the two sources of its pods.",
    ),
    Kind(
        "TEN-001",
        "namespace_made_again",
        blocks=False,
        remedy=Remedy.SIGN,
        means="A namespace was deleted and made again: the same name, another UID, perhaps "
        "another owner.",
        bill="The tenant is the namespace by name; both lives are on one invoice unless a dated "
        "decision says otherwise.",
        to_do="Ask whose namespace it is; if it changed hands, add a dated row to tenants.csv.",
    ),
    Kind(
        "JRN-001",
        "journal_contradicts_itself",
        blocks=False,
        remedy=Remedy.COVERED,
        means="The API of a cluster said two things that cannot both be true: an end that moved, a "
        "pod that was gone and is there again, an object that a list left out and a later look "
        "had, a clock or a resource version that went back.",
        bill="The rule that the ledger follows is fixed: the earliest start, the first end, and an "
        "ended pod never opens again. Amounts that rest on these objects follow it.",
        to_do="Look at the rows in `fct_contradictions`. Many at one instant point to a control "
        "plane that was restored from a backup, or to a clock that was set.",
    ),
    Kind(
        "CHECK-001",
        "check_failed",
        blocks=True,
        remedy=Remedy.SIGN,
        means="A named check ran and found rows that are not as they must be.",
        bill="The facts contradict a rule that every correct month obeys.",
        to_do="See the check's rows with `gpu-ledger check P -o json`; repair the cause, then "
        "refresh and check again.",
    ),
    Kind(
        "CHECK-002",
        "check_not_executed",
        blocks=True,
        remedy=Remedy.SIGN,
        means="A check that is required did not run, or looked at no row at all. A check that "
        "looks at nothing passes on every fault.",
        bill="Every other fault could be silent.",
        to_do="Run `gpu-ledger refresh --period P` and `gpu-ledger check P` again.",
    ),
)

CATALOGUE: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _KINDS})
