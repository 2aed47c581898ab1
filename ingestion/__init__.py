"""(1) Ask both sources every hour, and keep exactly what they said.

Put here: asking, landing, decoding into runs and lifecycle rows.
Not here: any opinion on what the answers mean (`quality`), or any counting (`dbt/`).
"""
