"""The models on Spark: raw tables go to it as Parquet, and tables of Parquet come back.

Put here: the exchange folder, the Spark session, and the order of dbt's models and the placement.
Not here: SQL (`dbt/`), loading the tables into the file of a build (`dbt/macros/made_once.sql`),
or the check whether Spark can be used (`warehouse.engine`).

Spark computes models only. Product facts are loaded by DuckDB before, and data tests run in DuckDB
afterwards, on the tables that Spark computed: a second engine checks the first.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore

from domain.identity import sha256
from warehouse.connection import connected
from warehouse.dbt_run import SPARK_REMEDY, ModelFailed, SparkProject
from warehouse.engine import Engine, SparkNotUsable, require_spark
from warehouse.home import Home
from warehouse.object_store import FAILURES, open_bucket
from warehouse.placement import PLACED, place_on_spark
from warehouse.store import StoreUnusable

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

GIVEN = ("raw", "seeds")
"""Schemas that DuckDB writes for Spark: evidence and decisions, and product facts."""

COMPUTED = "computed"
"""The schema of views over the Parquet files of Spark, from which dbt loads each table."""

_FLOATS = ("DOUBLE", "FLOAT")

SESSION = {
    "spark.sql.session.timeZone": "UTC",
    # An integer that overflows, or a cast that fails, stops the build.
    "spark.sql.ansi.enabled": "true",
    # A build does not use the catalogue of a site.
    "spark.sql.catalogImplementation": "in-memory",
    # The default, INT96, has no time zone for other readers.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A command opens no port for a web UI, and shows no progress bars.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
LOCAL_PARTITIONS_PER_PROCESSOR = 8
"""Partitions of a shuffle on one machine. A task writes all of them, before adaptive execution
joins the small ones: Spark's 200 take longer than the rows of a fleet that fits on one machine."""

COMPRESSION = "10"
"""How many times larger a table is in memory than its Parquet files. With Spark's 1 the planner
sends a table of some hundred MiB to every task (a broadcast), which fails where memory is less."""

LOCAL = {
    # Spark on one machine listens on that machine only. The executors of a cluster connect to the
    # driver, and an empty master may be one.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@contextmanager
def computed_on_spark(home: Home, engine: Engine, database: Path, folder: Path) -> Iterator[None]:
    """Compute every model on Spark; inside, the database has views of the tables.

    dbt writes below `folder`.
    """
    java = require_spark()
    # Spark reads this variable after every other setting of a site.
    os.environ.setdefault("SPARK_DRIVER_MEMORY", f"{java.memory_mib}m")
    with _exchange(home, engine) as exchange:
        with connected(database) as connection:
            _write_inputs(connection, exchange.folder)
        exchange.upload()
        with _session(engine, exchange.url) as session:
            _create_given_tables(session, exchange)
            project = SparkProject(folder)
            project.run("--exclude", f"{PLACED}+")
            _place(session)
            project.run("--select", f"{PLACED}+", "--exclude", PLACED)
        exchange.download()
        with connected(database) as connection:
            _create_views(connection, exchange.folder / "tables")
        yield
        with connected(database) as connection:
            connection.execute(f"drop schema {COMPUTED} cascade")


def _place(session: SparkSession) -> None:
    from pyspark.errors import PySparkException  # an extra

    try:
        place_on_spark(session)
    except PySparkException as cause:
        # The worker's own error is the last line of its traceback.
        found = str(cause).strip().splitlines()[-1]
        raise ModelFailed([PLACED], found, SPARK_REMEDY) from cause


class _Exchange:
    """The place for files between DuckDB and Spark: a folder, or a bucket and a copy of it."""

    def __init__(self, place: Path, bucket: str, own: str) -> None:
        self.folder = place / own
        self._bucket, self._own = bucket, own
        with self._bucket_errors("open the exchange"):
            self._store: Any = open_bucket(bucket) if bucket else None

    @property
    def url(self) -> str:
        """The address by which Spark finds the files; its client of S3 is called s3a."""
        if self._bucket:
            return f"{self._bucket.replace('s3://', 's3a://', 1)}/{self._own}"
        return self.folder.as_uri()

    def given(self) -> list[Path]:
        return sorted((self.folder / "given").rglob("*.parquet"))

    def upload(self) -> None:
        with self._bucket_errors("write the input of Spark"):
            for path in self.given() if self._store else ():
                obstore.put(self._store, path.relative_to(self.folder.parent).as_posix(), path)

    def download(self) -> None:
        with self._bucket_errors("read the tables of Spark"):
            for key in self._keys(f"{self._own}/tables"):
                if not key.endswith(".parquet"):
                    continue  # Hadoop marks a folder by an object, as it marks a complete table
                path = self.folder.parent / key
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    for chunk in obstore.get(self._store, key):
                        file.write(chunk)

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        with self._bucket_errors("delete the files of a refresh"):
            if keys := self._keys(self._own):
                obstore.delete(self._store, keys)

    @contextmanager
    def _bucket_errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except FAILURES as cause:
            raise StoreUnusable(self._bucket, action, OSError(0, _first_line(cause))) from cause

    def _keys(self, prefix: str) -> list[str]:
        if self._store is None:
            return []
        return [meta["path"] for page in obstore.list(self._store, prefix) for meta in page]


@contextmanager
def _exchange(home: Home, engine: Engine) -> Iterator[_Exchange]:
    """An empty exchange of this home, which is cleared afterwards; several homes may share one."""
    own = f"gpu-ledger-{sha256(str(home.path))[:16]}"
    bucket = engine.exchange.rstrip("/") if "://" in engine.exchange else ""
    place = home.build / "spark" if bucket or not engine.exchange else home.path / engine.exchange
    exchange = _Exchange(place, bucket, own)
    exchange.clear()
    try:
        yield exchange
    finally:
        exchange.clear()


def _write_inputs(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Write every raw table and the product facts as Parquet."""
    for schema, name in connection.execute(
        "select table_schema, table_name from information_schema.tables "
        "where table_schema in (select unnest($schemas)) order by all",
        {"schemas": list(GIVEN)},
    ).fetchall():
        path = folder / "given" / schema / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        connection.execute(f"copy (from {schema}.{name}) to '{_quoted(path)}' (format parquet)")


def _create_given_tables(session: SparkSession, exchange: _Exchange) -> None:
    from py4j.protocol import Py4JError  # an extra
    from pyspark.errors import PySparkException

    try:
        for schema in GIVEN:
            session.sql(f"create schema {schema}")
        for path in exchange.given():
            location = f"{exchange.url}/{path.relative_to(exchange.folder).as_posix()}"
            session.catalog.createTable(f"{path.parent.name}.{path.stem}", location, "parquet")
    except (PySparkException, Py4JError) as cause:
        raise SparkNotUsable(
            f"Spark does not read {exchange.url}: {_first_line(cause)}",
            "let every machine of Spark reach [engine] exchange; for a bucket add hadoop-aws, of "
            "the version of Hadoop in Spark, and its settings to spark-defaults.conf",
        ) from cause


def session_settings(master: str, url: str) -> dict[str, str]:
    """The settings of a session at this master, with its tables at this URL."""
    settings = SESSION | {"spark.sql.warehouse.dir": f"{url}/tables"}
    return settings | LOCAL if master.startswith("local") else settings


@contextmanager
def _session(engine: Engine, url: str) -> Iterator[SparkSession]:
    """A new session, which dbt uses as the active session of this process."""
    from py4j.protocol import Py4JError  # an extra
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # Nothing here goes through pandas, of which our lock has a newer version than Spark tests.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    # The workers of a cluster have the same image as this process, unless the site says otherwise.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("gpu-ledger")
    if engine.master:
        builder = builder.master(engine.master)
    for name, value in session_settings(engine.master, url).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as cause:
        raise SparkNotUsable(
            f"no session starts at {engine.master or 'the default master'}: {_first_line(cause)}",
            "correct [engine] master, or the Spark settings in SPARK_CONF_DIR",
        ) from cause
    _set_defaults(session)
    try:
        yield session
    finally:
        # Java may have been killed; the error of the model that was running says so.
        with suppress(Py4JError, OSError):
            session.stop()


def _set_defaults(session: SparkSession) -> None:
    """Settings that spark-defaults.conf and spark-submit may set otherwise."""
    context = session.sparkContext
    defaults = {"spark.sql.sources.fileCompressionFactor": COMPRESSION}
    if context.master.startswith("local"):
        partitions = LOCAL_PARTITIONS_PER_PROCESSOR * context.defaultParallelism
        defaults["spark.sql.shuffle.partitions"] = str(partitions)
    for name, value in defaults.items():
        if not context.getConf().contains(name):
            session.conf.set(name, value)


def _create_views(connection: duckdb.DuckDBPyConnection, tables: Path) -> None:
    """A view for each table of Spark."""
    connection.execute(f"create schema {COMPUTED}")
    for folder in sorted(tables.glob("*.db/*")):
        files = f"read_parquet('{_quoted(folder)}/*.parquet')"
        connection.execute(f"create view {COMPUTED}.{folder.name} as from {files}")
        if folder.parent.name == "marts.db":
            _require_no_floats(connection, folder.name)


def _require_no_floats(connection: duckdb.DuckDBPyConnection, mart: str) -> None:
    """A cast to the type of the contract would round a floating-point number."""
    for name, kind, *_ in connection.execute(f"describe {COMPUTED}.{mart}").fetchall():
        if kind in _FLOATS:
            raise ModelFailed([mart], f"Spark computed the column {name} as {kind}")


def _first_line(cause: Exception) -> str:
    """The first line with the cause; before it, py4j names the failed call."""
    first, *others = str(cause).strip().splitlines() or [type(cause).__name__]
    line = others[0] if others and first.startswith("An error occurred while") else first
    return line.lstrip(": ")[:200]


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
