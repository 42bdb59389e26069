"""Peers' own suites, run stock and then with guarded filesystems in their place, and compared test by test.

``python -m tests.peers [NAME...]`` does it. :mod:`tests.peers.table` says which suites, ``differences.toml``
which tests differ, and why.
"""
