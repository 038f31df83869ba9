"""The server of `vitalfew serve`: it answers questions by configured methods, over HTTP.

It imports no Prefect, and only `replicas` imports Ray. `application` makes the ASGI application; `running` runs
it until it is asked to end.
"""
