"""Running on more than one machine: an image, a compose file, a KubeRay example, and a small version of that cluster
without containers (`make cluster`). Tools of the repository: nothing that is installed imports them.
"""
