"""A store in a bucket: write-once objects, leases, a register of what there is, copies in a bounded cache.

Nothing here relies on a list of objects being complete: the clouds' own are, those of a server between may be old.
"""
