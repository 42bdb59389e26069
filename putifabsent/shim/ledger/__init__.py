"""A table's ledger: what unique names can't decide.

Two conflicting commits of Hudi never share a name, so no rule about one name keeps them apart. A ledger is
one list of numbered records, each of them created once, so that all writers agree on their order. What they
come to is a pure fold of them; whoever appends one has read all before it, and found it valid.

=================  ====================================================================
``facts``          the state
``records``        the records: when each is valid, what it means; their form
``book``           where they lie, how they are read, and what may go
``appending``      one record more
``turns``          the table's lock
``completion``     the commit, and what takes it back
``calls``          a call on a name, after its format's rule; what listings show
=================  ====================================================================
"""
