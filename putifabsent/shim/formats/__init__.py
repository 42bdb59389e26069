"""What the table formats call their files: one grammar a file. :mod:`putifabsent.shim.policy` asks them."""
