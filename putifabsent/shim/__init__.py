"""Decides. Pure: no I/O, no clock, no randomness, no client library."""
