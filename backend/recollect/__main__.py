"""`python -m recollect` is `recollect`."""

from recollect.entrypoints.cli.main import main

main()
