"""Dagster assets: thin calls into the stages."""
