"""Prefect's servers, which answer only the user who started them.

`home` has the place of their files and secrets, `guard` decides which requests they answer, `reports` shows the reports
of a store, `api` is the process, `service` runs both processes of `vitalfew ui`, and `access` connects a command to a
server, if need be a temporary one.
"""
