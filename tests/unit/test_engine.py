"""Java, as the engine finds it before it starts Spark, and the settings of the session.

Put here: the memory that Spark gets by default, and the host of its driver.
Not here: messages about a missing part (`tests/messages`), or facts of Spark (`tests/servers`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from warehouse.engine import SPARK_LEAST_MIB, require_java
from warehouse.spark_build import session_settings

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
SHOWN = """VM settings:
    Max. Heap Size (Estimated): {}
    Using VM: OpenJDK 64-Bit Server VM

openjdk version "17.0.15" 2025-04-15
"""


@pytest.mark.parametrize(
    ("heap", "mib"),
    [("5.89G", 6031), ("1.50G", 1536), ("1500.00M", 1500), ("490.00M", SPARK_LEAST_MIB)],
)
def test_spark_gets_the_memory_that_java_takes_by_default(
    heap: str, mib: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ncat >&2 <<END\n{SHOWN.format(heap)}END\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert require_java().memory_mib == mib


def test_spark_gets_its_own_default_where_java_states_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert require_java().memory_mib == SPARK_LEAST_MIB


@pytest.mark.parametrize(
    ("master", "driver"),
    [("local[*]", LOOPBACK), ("spark://spark.test:7077", {}), ("yarn", {}), ("", {})],
)
def test_executors_of_a_cluster_reach_the_driver(master: str, driver: dict[str, str]) -> None:
    """Without a master in config.toml, spark-submit or spark-defaults.conf may name a cluster."""
    settings = session_settings(master, "s3a://ledger/exchange")
    assert {k: v for k, v in settings.items() if k.startswith("spark.driver.")} == driver
    assert settings["spark.sql.warehouse.dir"] == "s3a://ledger/exchange/tables"
