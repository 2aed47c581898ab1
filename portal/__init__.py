"""Web pages for people: the layer that decides which requests reach them.

Put here: the parts that every web server of ours needs.
Not here: Dagster's own pages (`orchestration.dagster_code.webserver`), or facts and documents.
"""
