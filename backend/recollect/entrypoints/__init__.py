"""Doors: HTTP and the command line. Parse, call one service function, render."""

SPACE_HEADER = "x-recollect-space"
"""Names the space of a request. Only the local operator may send it: a key has its own space."""
