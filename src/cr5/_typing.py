"""Types that annotations name: arrays, for the reader more than for the checker, and the kinds of intercept."""

from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray
from scipy.sparse import csr_array

Array: TypeAlias = NDArray[Any]
Ints: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[Any]
Sparse: TypeAlias = csr_array
Intercept: TypeAlias = Literal["language", "shared"]
