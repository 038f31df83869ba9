"""Prefect's servers, each for the user who started it alone.

`home` says where their files and secrets lie, `guard` whom they answer, `api` is the process, `service` both processes
of `vitalfew ui`, and `access` how a command reaches a server, its own temporary one if there is no other.
"""
