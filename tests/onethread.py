"""NumPy's products in one thread, as in the daemon's processes (children.ENVIRONMENT): with two, some processors round otherwise, and what
was heard here and there is compared to the last bit. Read by OpenBLAS where NumPy is imported, so this is imported before."""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
