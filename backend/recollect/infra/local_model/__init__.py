"""A small real model on this machine: for a first chat with nothing configured."""
