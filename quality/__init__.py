"""(4) May these facts be billed? Findings and verdicts, and nothing that changes a fact.

Put here: coverage, conservation, reconciliation, verdicts, the suites that hold them.
Not here: counting (`dbt/`) and documents (`billing`).
"""
