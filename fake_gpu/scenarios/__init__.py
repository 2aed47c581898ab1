"""The library of scenarios: small stories, each in one YAML file.

Put here: scenarios that ship.
Not here: code.
"""
