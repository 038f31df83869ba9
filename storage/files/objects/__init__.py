"""A store in a bucket: write-once objects, leases, copies in a bounded cache.

A list of objects has what was written before it was asked for, as those of the clouds have (S3 since December 2020).
"""
