"""Type aliases: kinds of arrays, which tell readers more than the type checker, and the intercepts."""

from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray
from scipy.sparse import csr_array

Array: TypeAlias = NDArray[Any]
Ints: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[Any]
Sparse: TypeAlias = csr_array
Intercept: TypeAlias = Literal["language", "shared"]
