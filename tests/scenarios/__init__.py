"""Scenarios: whole stories, from an estate that is not there to sealed documents."""
