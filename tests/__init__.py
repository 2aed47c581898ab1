"""Tests of gpu-ledger."""
