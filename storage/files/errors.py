"""What is said where a store cannot be written or reached: every message has the place, the cause and the remedy."""


class NotWritten(OSError):
    """A file of a store could not be written."""


class BucketError(OSError):
    """A bucket is not there, lets nobody in, or does not do what it is asked."""


class CacheFull(OSError):
    """There is no room on this machine for a copy of an object."""


class LeaseLost(OSError):
    """Another process holds by now what this one did."""
