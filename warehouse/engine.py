"""The engine that computes the facts of a period: DuckDB in this process, or Spark.

Put here: the setting `[engine]` of config.toml as a value, and why Spark cannot be used here.
Not here: reading the setting (`ingestion.settings`), or computing with Spark
(`warehouse.spark_build`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from domain.errors import TemporarilyUnavailable

DUCKDB, SPARK = "duckdb", "spark"
KINDS = (DUCKDB, SPARK)

JAVA_LEAST = 17
"""Spark 4 runs on Java 17 and later."""

SPARK_LEAST_MIB = 1024
"""Spark's own default of the memory of its driver, too little for a fleet of 1,000 GPUs."""

JAVA_SECONDS = 30
"""`java -version` takes a tenth of a second; on a busy machine some seconds."""

_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_MEMORY = re.compile(r"Max\. Heap Size.*: ([\d.]+)([MG])")


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine of the models; for Spark, its master and the place for exchanged files."""

    kind: str = DUCKDB
    master: str = ""  # "" is Spark's own: spark-submit's, spark-defaults.conf's, or local[*]
    exchange: str = ""  # a folder or the URL of a bucket; "" is build/spark/ in the home


ON_DUCKDB = Engine()


@dataclass(frozen=True, slots=True)
class Java:
    """The Java that Spark will use."""

    version: int
    memory_mib: int  # its default: a quarter of the memory of the machine or container


class SparkNotUsable(TemporarilyUnavailable):
    """The setting demands Spark, and no Spark session can be started here."""

    code = "INSTALL-001"

    def __init__(self, seen: str, remedy: str) -> None:
        super().__init__(
            where='config.toml [engine] kind = "spark"',
            seen=seen,
            why="the facts of this home are computed by Spark; the warehouse was not changed",
            remedy=remedy,
        )


def require_spark() -> Java:
    """The Java that Spark will use; raises SparkNotUsable with the missing part."""
    for package in ("pyspark", "dbt.adapters.spark"):
        if find_spec(package) is None:
            raise SparkNotUsable(
                f"the Python package {package} is not installed",
                "pip install 'gpu-ledger[spark]'",
            )
    return require_java()


def require_java() -> Java:
    """The Java that JAVA_HOME or PATH names; raises SparkNotUsable below 17."""
    remedy = f"install Java {JAVA_LEAST} or later, and let JAVA_HOME or PATH name it"
    home = os.environ.get("JAVA_HOME", "")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise SparkNotUsable("PATH has no java, and JAVA_HOME is not set", remedy)
    command = [java, "-XshowSettings:vm", "-version"]
    try:
        shown = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=JAVA_SECONDS
        ).stderr
    except (OSError, subprocess.SubprocessError) as cause:
        raise SparkNotUsable(f"{java} does not run: {cause}", remedy) from None
    found = _JAVA_VERSION.search(shown)
    if found is None or int(found[1]) < JAVA_LEAST:
        version = f"Java {found[1]}" if found else "no Java that states its version"
        raise SparkNotUsable(f"{java} is {version}", remedy)
    memory = _JAVA_MEMORY.search(shown)
    mib = float(memory[1]) * (1024 if memory[2] == "G" else 1) if memory else 0
    return Java(int(found[1]), max(int(mib), SPARK_LEAST_MIB))
