"""PostgreSQL, an option for Dagster's storage, is installed and works."""

from __future__ import annotations

from pathlib import Path

import psycopg2
import pytest

from tests.servers import postgres

pytestmark = pytest.mark.servers


def ask(url: str, statement: str) -> list[tuple[object, ...]]:
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []
    finally:
        connection.close()


def test_the_database_keeps_its_rows_over_a_restart(tmp_path: Path) -> None:
    cluster = postgres.make_cluster(tmp_path / "postgres")
    with postgres.started(cluster):
        [(version,)] = ask(cluster.url, "show server_version")
        assert int(str(version).split(".")[0]) >= 13
        ask(cluster.url, "create table hours (name text)")
        ask(cluster.url, "insert into hours values ('2026-10-01T00:00:00Z')")
    with pytest.raises(psycopg2.OperationalError):
        ask(cluster.url, "select 1")
    with postgres.started(cluster):
        assert ask(cluster.url, "select name from hours") == [("2026-10-01T00:00:00Z",)]
