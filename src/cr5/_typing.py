"""Type aliases: kinds of arrays, and the intercepts."""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Ints: TypeAlias = NDArray[Any]  # of any integer type: dicts of one of them would not be accepted as dicts of others
Mask: TypeAlias = NDArray[np.bool_]
Sparse: TypeAlias = Any  # scipy.sparse.csr_array: SciPy is loaded when a matrix is made
Intercept: TypeAlias = Literal["language", "shared"]
