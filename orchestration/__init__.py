"""The order of the pipeline's steps, and its user interfaces: command line, Dagster, demos.

Put here: `steps` and the state that they need; below it `cli`, `dagster_code` and `demo`.
Not here: the work of a step. No other package imports this one.
"""
