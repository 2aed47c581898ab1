"""Tests against real servers, and the servers themselves."""
