"""Ops on the bits of integers and booleans; none has a derivative."""

from tinygrad_edu.engine.tape import Op


class BitwiseAnd(Op):
    """{out} = the bits that {x} and {y} both have"""

    promotes = True

    def forward(x, y):
        return x & y


class BitwiseOr(Op):
    """{out} = the bits that {x} or {y} has"""

    promotes = True

    def forward(x, y):
        return x | y


class BitwiseXor(Op):
    """{out} = the bits in which {x} and {y} differ"""

    promotes = True

    def forward(x, y):
        return x ^ y


class BitwiseNot(Op):
    """{out} = {x} with every bit turned"""

    def forward(x):
        return ~x


class LeftShift(Op):
    """{out} = {x} · 2^{y}, the bits moved up"""

    promotes = True

    def forward(x, y):
        return x << y


class RightShift(Op):
    """{out} = ⌊{x} / 2^{y}⌋, the bits moved down"""

    promotes = True

    def forward(x, y):
        return x >> y
