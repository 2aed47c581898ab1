"""The evidence store: landed responses, the chain of attempts, due hours, derived files.

Put here: everything that is the same for both sources.
Not here: queries and decoding (`ingestion.thanos`, `ingestion.kubernetes`), which use this package.
"""
