"""The index on disk: one LanceDB table per owner, in generations. Nothing here imports LanceDB until it is used."""
