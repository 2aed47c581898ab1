"""May these facts be billed? Findings, coverage statuses and the gate.

Put here: what is checked (coverage, conservation, reconciliation, unknown things), the catalogue
of findings, and the one edge that reads the facts and writes the check (`quality.run`).
Not here: evidence (`ingestion`), facts (`dbt/`), or documents (`billing`, which obeys).
"""
