"""What Recollect does: one folder or file per capability."""
