"""Names of headers that more than one door knows."""

SPACE_HEADER = "x-recollect-space"
"""Heeded from the local operator alone: a key has its space."""
