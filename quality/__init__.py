"""May these facts be billed? Findings, verdicts and the gate.

Put here: what is judged (coverage, conservation, reconciliation, unknown things), the catalogue
of findings, and the one edge that reads the facts and writes the judgement (`quality.run`).
Not here: evidence (`ingestion`), facts (`dbt/`), or documents (`billing`, which obeys).
"""
