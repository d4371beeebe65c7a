"""Other systems' protocols, one file each: their clients work unchanged."""
