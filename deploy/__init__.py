"""How to run it on more than one machine: an image, a compose file, a KubeRay example, and the same cluster in small
without containers (`make cluster`). Tooling of the repository: nothing that is installed imports it.
"""
