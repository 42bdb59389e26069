"""Does I/O. Knows nothing of table formats."""
