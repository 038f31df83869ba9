"""Tests of vitalfew. Idle threads of OpenMP sleep: two workers on two cores that spin instead take several times as long."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when torch or FAISS loads
