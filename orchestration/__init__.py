"""When, and in what order: Dagster's definitions and the command line. Nobody imports it.

Put here: wiring of the stages, schedules, commands.
Not here: anything that a stage could do itself.
"""
