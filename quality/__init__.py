"""May these facts be billed? Findings, coverage status and named checks.

Put here: the parts of a check (coverage, reconciliation, named checks, unknown things), the
catalogue of findings, and the module that reads the facts and records the check (`quality.run`).
Not here: evidence (`ingestion`), facts (`dbt/`), or documents (`billing`, which obeys the check).
"""
