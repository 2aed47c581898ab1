"""Great Expectations suites as code, over small gates: aggregates with a row per cluster or tenant.

Put here: what the gates are, what is expected of them, and running them.
Not here: row-level rules, which are dbt tests, or anything that imports Great Expectations at the
top: it takes seconds.
"""
