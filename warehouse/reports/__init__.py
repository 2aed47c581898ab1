"""Reports on the marts: usage, nodes, inventory, quotas, named queries.

Put here: plain functions from open facts to rows.
Not here: options and printing (`orchestration.cli`), or anything that counts (`dbt/`).
"""
