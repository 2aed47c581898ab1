"""Hadoop's client of S3, by which Spark reads and writes a bucket.

Put here: fetching its jars with Maven, and the settings of Spark for a bucket of a test.
Not here: the bucket (`s3.py`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.servers.build import cache_folder
from tests.servers.process import required
from tests.servers.s3 import REGION

POM = Path(__file__).parent / "java" / "pom.xml"
OF_SPARK = "org.slf4j,io.netty,commons-logging,commons-codec,org.apache.httpcomponents"
"""Groups of which Spark has own versions."""


def spark_environment(folder: Path) -> dict[str, str]:
    """Environment variables by which a command's Spark uses the buckets of `s3.py`.

    The address and the keys are in the variables of the bucket itself, which Spark reads too.
    """
    settings = {
        "spark.jars": f"{_jars()}/*.jar",
        "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    folder.mkdir()
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    return {"SPARK_CONF_DIR": str(folder)}


def _jars() -> Path:
    """The folder of the jars, fetched once per version into the user's cache."""
    version = hashlib.sha256(POM.read_bytes() + OF_SPARK.encode()).hexdigest()[:16]
    target = cache_folder() / f"hadoop-aws-{version}"
    if not target.is_dir():
        aside = target.with_suffix(f".{os.getpid()}")
        shutil.rmtree(aside, ignore_errors=True)
        command = [
            *(str(required("mvn")), "--quiet", "--batch-mode", "--file", str(POM)),
            *("dependency:copy-dependencies", "-DincludeScope=runtime"),
            *(f"-DexcludeGroupIds={OF_SPARK}", f"-DoutputDirectory={aside}"),
        ]
        subprocess.run(command, check=True)
        aside.rename(target)
    return target
