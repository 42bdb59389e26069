"""What fsspec's door does, frozen: the requests of every public verb, and what its caller is told.

``files/<store>-<arbiter>.txt`` holds one table of verbs by one store and one arbiter. Under a verb each state
that its name is in stands once, with the colours that behave alike: ``sync``, ``async``, or both. Verbs that
behave alike in every state share a heading. Of S3 the requests are those on the wire, at an in-process stub;
memory and local disk have no wire, so there they are the calls of the store's contract and of the wrapped
filesystem, the outermost of each. Registries and locks are fakes that note the calls of their contracts: what
those send is frozen by their own tests.

A name is ``guarded`` (a Delta log entry, printed as ``...0.json``) or ``ordinary``; it is

``free``         nobody has it
``there``        another writer has created it
``unpublished``  another has, by another arbiter than the store, and its plain name is missing
``lost``         free, and the answer to the request that decides is lost once, after it was applied
``unknown``      free, and that answer is always lost; the deadline passes at the first pause

Left out, for they add lines and say nothing new: another arbiter on local disk, and a lock elsewhere than
over S3 (the door meets stores and arbiters through their contracts alone); a lost answer to a plain write of
an ordinary name (the wrapped filesystem's own business, and nobody resolves it); a lost answer to each other
request than the one that decides (``tests/truth``); parts that go out while a file is still being written
(``test_ahead.py`` of the door). What fsspec sends at the same time is sent one by one here. GCS and Azure
are not frozen yet: their clients repeat requests by clocks of their own.

``python -m tests.golden`` writes the files again, or those that are named behind it, as ``s3-native``.
"""
