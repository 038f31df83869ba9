"""Tests of vitalfew."""

import os

# Threads that wait must sleep: those of two workers that spin take the cores from each other. OpenMP reads this once.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
