"""What really was, computed by deliberate brute force, so that nothing can agree by sharing code.

Put here: ledgers from plain rows, as naive as they can be.
Not here: any import of ours, not even `domain`; a test holds that. No cleverness either.
"""
