"""`dbt source freshness` passes, warns or fails for each source by the age of its newest evidence.

Put here: dbt's own command on a database like that of a build, by the clock of that database.
Not here: the doctor, which checks the same limits by the home's clock, for each cluster separately
(`test_cli_doctor`).
"""

from __future__ import annotations

import pytest

from warehouse import dbt_run
from warehouse.connection import connected
from warehouse.dbt_run import DbtProject

pytestmark = pytest.mark.deep


class Project(DbtProject):
    """The dbt project, with a query of the freshness of its sources."""

    def freshness(self) -> dict[str, str]:
        results = self._invoke("source", "freshness").result.results
        return {one.node.name: str(one.status) for one in results}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("freshness")
    return Project(folder / "dbt", folder / "facts.duckdb")


def freshness(project: Project, hours_of_samples: float, hours_of_watch: float) -> tuple[str, ...]:
    """The results for both sources if their newest rows have this age in hours."""
    with connected(project._database) as connection:
        connection.execute("create schema if not exists raw")
        for table, column, hours in (
            ("thanos_runs", "hour_started_at", hours_of_samples),
            ("kubernetes_coverage", "watched_until", hours_of_watch),
        ):
            connection.execute(
                f"create or replace table raw.{table} as "
                f"select now() - to_seconds(3600 * age) as {column} "
                f"from (values ({hours}), ({hours} + 100)) as told (age)"
            )
    results = project.freshness()
    return tuple(results[name] for name in ("thanos_runs", "kubernetes_coverage"))


@pytest.mark.parametrize(
    ("samples", "watch", "expected"),
    [
        # An hour that began four hours ago ended three hours ago, and is pulled within one more.
        (3.9, 30.1, ("pass", "error")),
        (4.1, 2.9, ("warn", "pass")),
        (30.9, 3.1, ("warn", "warn")),
        (31.1, 29.9, ("error", "warn")),
    ],
)
def test_each_source_is_as_fresh_as_its_newest_row(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    samples: float,
    watch: float,
    expected: tuple[str, str],
) -> None:
    # A build treats a warning as an error; here it is one of the expected results.
    options = [f for f in dbt_run.FLAGS if f not in (dbt_run.WARNINGS, "--warn-error-options")]
    monkeypatch.setattr(dbt_run, "FLAGS", options)
    assert freshness(project, samples, watch) == expected
