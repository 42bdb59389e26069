"""Starts real servers and races writers on them: the demo, and what comes after it."""
