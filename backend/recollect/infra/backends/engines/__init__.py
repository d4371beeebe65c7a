"""One module for each engine: how it is recognised, what it is sent, and how its answer is read."""
