"""The demo: a fake estate, its evidence, and bills that refuse to be wrong.

Everything goes through the same steps as in production; only the estate is not there, and the
clock is driven.
"""
