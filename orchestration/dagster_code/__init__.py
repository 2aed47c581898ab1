"""Dagster: definitions of assets, jobs, schedules and sensors, and the processes that run them.

Put here: thin calls of `orchestration.steps`, and the events that Dagster shows.
Not here: the steps, or a rule of one.
"""
