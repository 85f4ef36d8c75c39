"""The array types that annotations name: for the reader, more than for the checker."""

from typing import Any, TypeAlias

from numpy.typing import NDArray
from scipy.sparse import csr_array

Array: TypeAlias = NDArray[Any]
Ints: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[Any]
Sparse: TypeAlias = csr_array
