"""(2) The places where things are kept: the home, its stores, and the only code that opens DuckDB.

Put here: object stores, the home and its lease, connections, schemas, builds, the published copy.
Not here: queries (`ingestion`), counting (`dbt/`), checks (`quality`) or billing (`billing`).
"""
