"""One file per verb, each the whole story of that verb. Talks to the world through `ports.py` only."""
