"""Ops that choose, compare and convert, element by element."""

from tinygrad_edu.arrays.dtypes import float16, float32
from tinygrad_edu.arrays.library import module_of, quiet, where
from tinygrad_edu.engine.tape import Op


class Where(Op):
    """{out} = {x} where {condition}, else {y}"""

    promotes = True
    numbers = "fit"
    unpromoted = 1

    def forward(condition, x, y):
        return where(condition, x, y)

    def dx(g, condition):
        """d{x} = d{out} where {condition}, else 0"""
        return Where(condition, g, 0.0)

    def dy(g, condition):
        """d{y} = 0 where {condition}, else d{out}"""
        return Where(condition, 0.0, g)


class MaskedFill(Op):
    """{out} = {value} where {mask}, else {x}"""

    def forward(x, mask, *, value):
        return where(mask, module_of(x).asarray(value, dtype=x.dtype), x)

    def dx(g, mask):
        """d{x} = 0 where {mask}, else d{out}"""
        return MaskedFill(g, mask, value=0.0)


class ZerosLike(Op):
    """{out} = zeros in the shape of {x}: 0 · {x} would be NaN where that is infinite"""

    def forward(x):
        return module_of(x).zeros_like(x)


class Cast(Op):
    """{out} = {x} as {dtype}"""

    def forward(x, *, dtype):
        with quiet(x):
            return x.astype(dtype)

    def dx(g, x_dtype):
        """d{x} = d{out} as the dtype of {x}"""
        return Cast(g, dtype=x_dtype)


def whole(x):
    """`x`, in float32 where it is float16: for a rule with a number that float16 may not hold."""
    return Cast(x, dtype=float32) if x.dtype == float16 else x


class Equal(Op):
    """{out} = whether {x} = {y}"""

    promotes = True
    numbers = "exact"

    def forward(x, y):
        return x == y


class NotEqual(Op):
    """{out} = whether {x} ≠ {y}"""

    promotes = True
    numbers = "exact"

    def forward(x, y):
        return x != y


class Less(Op):
    """{out} = whether {x} < {y}"""

    promotes = True
    numbers = "exact"

    def forward(x, y):
        return x < y


class LessEqual(Op):
    """{out} = whether {x} ≤ {y}"""

    promotes = True
    numbers = "exact"

    def forward(x, y):
        return x <= y


class LogicalNot(Op):
    """{out} = not {x}"""

    def forward(x):
        return module_of(x).logical_not(x)


class LogicalAnd(Op):
    """{out} = {x} and {y}"""

    def forward(x, y):
        return module_of(x).logical_and(x, y)


class LogicalOr(Op):
    """{out} = {x} or {y}"""

    def forward(x, y):
        return module_of(x).logical_or(x, y)
