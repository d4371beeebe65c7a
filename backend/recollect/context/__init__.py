"""What goes into a prompt. Pure: no I/O, no clock."""
