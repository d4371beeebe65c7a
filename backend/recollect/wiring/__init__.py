"""How the parts of an App are put together."""
