"""(1) Query both sources every hour, and store the exact responses.

Put here: queries, landing, decoding into runs and lifecycle rows.
Not here: coverage status and findings (`quality`), or any counting (`dbt/`).
"""
