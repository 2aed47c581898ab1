"""The basis of a close as a sealed document: decisions, evidence, check, code.

Put here: writing the basis, and reading it back for a recount.
Not here: the documents that name it (`invoice`, `statement`).

The basis does not depend on the time of the close, nor on the time and order in which evidence
arrived: the same evidence and decisions give the same basis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from billing.invoice import party_entry
from billing.record import Record
from billing.sealing import Document, sha256, to_bytes
from domain.billing_period import BillingPeriod
from domain.decisions import Decisions, Party, PartyRole, canonical_files, load_sealed_copy
from domain.findings import Check, CheckResult, CoverageStatus, Finding
from domain.interval import format_instant
from domain.money import format_nanos

SCHEMA = "gpu-ledger/basis/1"


@dataclass(frozen=True, slots=True)
class Basis:
    """All inputs of the documents of one period."""

    period: BillingPeriod
    currency: str
    decisions: Decisions  # the rows that are valid in the period
    product_facts: Mapping[str, str]
    evidence: Mapping[str, Mapping[str, list[str]]]
    check_result: CheckResult
    code_version: str
    library_versions: Mapping[str, str]

    @property
    def issuer(self) -> Party | None:
        """The issuer of the documents, at the end of the period."""
        last = self.period.ended_at - timedelta(seconds=1)
        return self.decisions.party(PartyRole.ISSUER, "", last)

    def document(self) -> Document:
        return {
            "schema": SCHEMA,
            "billing_period": self.period.name,
            "currency": self.currency,
            "issuer": party_entry(self.issuer),
            "decisions": canonical_files(self.decisions.rows),
            "decisions_sha256": self.decisions.sha256,
            "product_facts": dict(self.product_facts),
            "evidence": {cluster: dict(found) for cluster, found in self.evidence.items()},
            "facts_sha256": self.check_result.facts_sha256,
            "check": check_result_entry(self.check_result),
            "code_version": self.code_version,
            "library_versions": dict(self.library_versions),
        }

    def stands_on(self) -> dict[str, str]:
        """The hashes and versions that every document of the period carries."""
        document = self.document()
        return {
            "basis_sha256": sha256(to_bytes(document)),
            "decisions_sha256": self.decisions.sha256,
            "product_facts_sha256": sha256(to_bytes(dict(self.product_facts))),
            "evidence_sha256": sha256(to_bytes({"evidence": document["evidence"]})),
            "facts_sha256": self.check_result.facts_sha256,
            "checks_sha256": sha256(to_bytes({"checks": _checks(self.check_result)})),
            "code_version": self.code_version,
            **{f"{name}_version": text for name, text in sorted(self.library_versions.items())},
        }


def sealed_decisions(basis: Mapping[str, Any]) -> Decisions:
    """The decisions as they were sealed."""
    return load_sealed_copy(basis["decisions"])


def sealed_copies(record: Record) -> dict[BillingPeriod, Decisions]:
    """The sealed decisions of each closed period, in order."""
    closes = sorted(record.ledger().closes().items())
    return {
        BillingPeriod(name): sealed_decisions(record.sealed(str(close.body["basis_sha256"])))
        for name, close in closes
    }


def check_result_entry(check_result: CheckResult) -> Document:
    return {
        "is_billable": check_result.billable,
        "findings": [finding_entry(finding) for finding in check_result.findings],
        "coverage_statuses": [
            _coverage_entry(coverage_status) for coverage_status in check_result.coverage_statuses
        ],
        "checks": _checks(check_result),
        "missing_checks": list(check_result.missing_checks),
    }


def finding_entry(finding: Finding) -> Document:
    started_at, ended_at = finding.hour_started_at, finding.hour_ended_at
    return {
        "code": finding.code,
        "name": finding.name,
        "where": finding.where,
        "seen": finding.seen,
        "why": finding.why,
        "what_to_do": finding.what_to_do,
        "blocks": finding.blocks,
        "remedy": finding.remedy.value,
        "cluster_id": finding.cluster_id,
        "tenant": finding.tenant,
        "hour_started_at": format_instant(started_at) if started_at else "",
        "hour_ended_at": format_instant(ended_at) if ended_at else "",
        "affected_seconds": finding.affected_seconds,
        "affected_cost": format_nanos(finding.affected_nanos),
    }


def _checks(check_result: CheckResult) -> list[Document]:
    return [_check_entry(check) for check in check_result.checks]


def _check_entry(check: Check) -> Document:
    return {
        "name": check.name,
        "evaluated_row_count": check.evaluated_row_count,
        "failed_row_count": check.failed_row_count,
        "result": check.result,
    }


def _coverage_entry(coverage_status: CoverageStatus) -> Document:
    return {
        "cluster_id": coverage_status.cluster_id,
        "source": coverage_status.source,
        "hour_started_at": format_instant(coverage_status.hour_started_at),
        "state": coverage_status.state.value,
        "reason": coverage_status.reason,
        "expected_count": coverage_status.expected_count,
        "seen_count": coverage_status.seen_count,
    }
