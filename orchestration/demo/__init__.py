"""The demo: a simulated fleet, its evidence, and bills that refuse to be wrong.

Everything goes through the same steps as in production; only the fleet is not there, and the
clock is driven.
"""
