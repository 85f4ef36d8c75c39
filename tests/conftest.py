"""Small problems run on one thread: waking a second one takes longer than the work."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
