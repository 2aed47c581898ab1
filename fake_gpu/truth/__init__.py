"""The true use, computed by deliberate brute force, so that no result agrees because of shared
code.

Put here: ledgers from plain rows, as naive as they can be.
Not here: any import of ours, not even `domain`; a test holds that. No cleverness either.
"""
