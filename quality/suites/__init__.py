"""Great Expectations suites as code, over aggregates with a row per cluster or tenant.

Put here: the statements of these rows (`sql`), what is expected of them, and running that.
Not here: row-level rules, which are dbt tests, or
anything that imports Great Expectations at the top: it takes seconds.
"""
