"""Type aliases: kinds of arrays, which tell readers more than the type checker, and the intercepts."""

from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Ints: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[Any]
Sparse: TypeAlias = Any  # scipy.sparse.csr_array: SciPy is loaded when a matrix is made
Intercept: TypeAlias = Literal["language", "shared"]
