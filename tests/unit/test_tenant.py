"""Owners of namespaces: the rule, the dated exceptions, and a unique result.

Put here: the behaviour of `domain.tenant`.
Not here: reading tenants.csv (`test_decisions_reading`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from domain.billing_period import BillingPeriod
from domain.decisions import load_decisions
from domain.interval import Interval
from domain.tenant import BelongsTo, Ownership, belongs_by_rule

OCTOBER = BillingPeriod("2026-10").interval
TENTH = datetime(2026, 10, 10, tzinfo=UTC)
TWENTIETH = datetime(2026, 10, 20, tzinfo=UTC)
HEADER = "namespace,belongs_to,valid_from,valid_until,reason,decided_by,decided_on\n"


def ownership(*rows: str) -> Ownership:
    return load_decisions({"tenants.csv": HEADER + "\n".join(rows)}).ownership


@pytest.mark.parametrize(
    "namespace",
    ["openshift-monitoring", "openshift-", "kube-system", "kube-amd-gpu", "openshift", "default",
     "nvidia-gpu-operator", "gpu-operator", "node-feature-discovery", "redhat-ods-applications",
     "open-cluster-management-observability", "gpu-ledger"],
)  # fmt: skip
def test_system_namespaces_are_the_providers(namespace: str) -> None:
    assert belongs_by_rule(namespace) is BelongsTo.PROVIDER


@pytest.mark.parametrize(
    "namespace",
    ["team-a", "kube", "kubeflow", "kubernetes-dashboard", "openshiftish", "my-openshift-lab",
     "rhods-notebooks", "gpu-operator-demo", "default-2", "nvidia-gpu-operators", "OPENSHIFT-x"],
)  # fmt: skip
def test_similar_names_are_tenants(namespace: str) -> None:
    assert belongs_by_rule(namespace) is BelongsTo.TENANT


def test_a_decision_makes_a_system_namespace_a_tenant_from_its_start() -> None:
    owner = ownership("default,tenant,2026-10-10,,students use it,Ada,2026-10-01")
    assert owner.belongs_to("default", TENTH - timedelta(seconds=1)) is BelongsTo.PROVIDER
    assert owner.belongs_to("default", TENTH) is BelongsTo.TENANT


def test_a_decision_ends_before_its_last_instant() -> None:
    owner = ownership("shared,provider,2026-10-10,2026-10-20,trial,Ada,2026-10-01")
    assert owner.belongs_to("shared", TWENTIETH - timedelta(seconds=1)) is BelongsTo.PROVIDER
    assert owner.belongs_to("shared", TWENTIETH) is BelongsTo.TENANT


def test_decisions_about_one_namespace_do_not_change_others() -> None:
    owner = ownership("shared,provider,2026-10-10,,trial,Ada,2026-10-01")
    assert owner.belongs_to("shared-2", TENTH) is BelongsTo.TENANT
    assert owner.belongs_to("share", TENTH) is BelongsTo.TENANT


def test_a_month_is_cut_at_changes_of_the_owner() -> None:
    owner = ownership("shared,provider,2026-10-10,2026-10-20,trial,Ada,2026-10-01")
    assert owner.spans("shared", OCTOBER) == [
        (Interval(OCTOBER.started_at, TENTH), BelongsTo.TENANT),
        (Interval(TENTH, TWENTIETH), BelongsTo.PROVIDER),
        (Interval(TWENTIETH, OCTOBER.ended_at), BelongsTo.TENANT),
    ]
    assert owner.spans("team-a", OCTOBER) == [(OCTOBER, BelongsTo.TENANT)]
