"""Great Expectations suites as code, over small gates: aggregates with a row per cluster or tenant.

Put here: what is expected of the gates, and running that.
Not here: the gates, which are models (`dbt/models/gates`), row-level rules, which are dbt tests, or
anything that imports Great Expectations at the top: it takes seconds.
"""
