"""Doors: HTTP and the command line. Parse, call one service function, render."""
