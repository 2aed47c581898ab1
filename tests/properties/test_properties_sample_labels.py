"""Labels of samples are valid exactly if the published grammar of Kubernetes permits them.

Put here: `stg_thanos__series.label_invalid` against the regular expressions of apimachinery.
Not here: the effects of an invalid label (`unit/test_quality_causes`).
"""

from __future__ import annotations

import re

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.rendered_models import rendered
from warehouse.project import dbt_project_dir

MODEL = dbt_project_dir() / "models" / "staging" / "stg_thanos__series.sql"

# k8s.io/apimachinery/pkg/util/validation: DNS1123Label, DNS1123Subdomain, LabelValue.
DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
GRAMMAR = {
    "uid": (LABEL_VALUE, 63),
    "pod": (DNS_SUBDOMAIN, 253),
    "namespace": (DNS_LABEL, 63),
    "node": (DNS_SUBDOMAIN, 253),
    "label_*": (LABEL_VALUE, 63),
}
VALID = {"uid": "5f-1", "pod": "a.b-0", "namespace": "team-a", "node": "n1.example", "label_*": "x"}
HOSTILE = (
    "../../../../x", "..", ".", "/etc", "a/b", "a\\b", "a\x00b", "a\n", "\x1b[2J", "a\u202eb",
    "A", "é", "-a", "a-", "a..b", "a.-b", "a-.b", "_a", "a_", '"', "a b", "a" * 63, "a" * 64,
    "a" * 253, "a" * 254, "provider", "focus",
)  # fmt: skip


Values = dict[str, str]


def labels_invalid(series: list[Values], metric: str = "kube_pod_labels") -> list[str]:
    """The invalid label of each series, according to the model."""
    target = {"instance": "10.0.0.1:8443"}
    labels = [
        {"namespace": one["namespace"], "node": one["node"], "label_team": one["label_*"], **target}
        for one in series
    ]
    columns = {
        "cluster_id": ["c"] * len(series),
        "attempt_id": ["a"] * len(series),
        "series_key": list(range(len(series))),
        "metric": [metric] * len(series),
        "labels_sha256": [""] * len(series),
        "labels": pa.array([[*one.items()] for one in labels], pa.map_(pa.string(), pa.string())),
        "uid": [one["uid"] for one in series],
        "pod": [one["pod"] for one in series],
    }
    sql = rendered(MODEL, "duckdb").replace("raw_thanos_series", "given")
    with duckdb.connect() as connection:
        connection.register("given", pa.table(columns))
        rows = connection.execute(f"select label_invalid from ({sql}) order by series_key")
        return [str(name) for (name,) in rows.fetchall()]


def expected(values: Values) -> str:
    """The first label that the published grammar refuses; a missing label is not invalid."""
    for name, (pattern, limit) in GRAMMAR.items():
        value = values[name]
        if value and not (len(value) <= limit and re.fullmatch(pattern, value, re.ASCII)):
            return name
    return ""


def test_hostile_values_are_refused_exactly_as_in_kubernetes() -> None:
    places = [(name, value) for name in GRAMMAR for value in HOSTILE]
    series = [VALID | {name: value} for name, value in places]
    assert labels_invalid(series) == [expected(one) for one in series]
    refused = {place for place, one in zip(places, series, strict=True) if expected(one)}
    assert {(name, "../../../../x") for name in GRAMMAR} <= refused
    assert ("namespace", "provider") not in refused  # a valid name of a namespace


VALUES = st.text(alphabet="aZ09-._/\\\"'\n\x00é:{}", max_size=8) | st.sampled_from(HOSTILE)


@given(st.lists(st.tuples(st.sampled_from(sorted(GRAMMAR)), VALUES), min_size=1, max_size=50))
def test_any_value_is_refused_exactly_as_in_kubernetes(
    places: list[tuple[str, str]],
) -> None:
    series = [VALID | {name: value} for name, value in places]
    assert labels_invalid(series) == [expected(one) for one in series]


def test_only_labels_of_kubernetes_objects_are_validated() -> None:
    """No grammar of Kubernetes applies to a target's own labels and the names of an exporter."""
    assert labels_invalid([VALID | {"pod": "Not/One"}], metric="DCGM_FI_DEV_GPU_UTIL") == [""]
