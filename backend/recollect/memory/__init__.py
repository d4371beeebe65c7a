"""What a memory is: the model, boundaries and the Markdown grammar. Pure: no I/O, no clock."""
