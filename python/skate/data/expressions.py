"""Expressions over columns: col("x") * 2 + lit(1), comparisons, .str/.list/.struct/.map/.dt/.arr,
user functions.

An expression is an immutable tree that describes a computation and is pickled to the workers.
Nothing is computed here: expr/evaluation.py evaluates trees with Arrow's kernels, one batch at a
time. `==` builds a comparison, so structurally_equals() compares two trees; an expression has no
truth value.

Cost: building makes plain Python objects; evaluating costs one Arrow kernel per node and batch.
"""

from __future__ import annotations

import enum
import functools
import uuid as uuid_
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from skate._deps import evaluation
from skate.data.datatype import DataType
from skate.data.expr import names

__all__ = [
    "AggregateExpr",
    "AliasExpr",
    "BinaryExpr",
    "CaseExpr",
    "ColumnExpr",
    "DownloadExpr",
    "Expr",
    "LiteralExpr",
    "MonotonicallyIncreasingIdExpr",
    "Operation",
    "PyArrowComputeUDFExpr",
    "RandomExpr",
    "StarExpr",
    "Then",
    "UDFExpr",
    "UUIDExpr",
    "UnaryExpr",
    "When",
    "col",
    "download",
    "lit",
    "monotonically_increasing_id",
    "pyarrow_udf",
    "random",
    "star",
    "udf",
    "uuid",
    "when",
]


class Operation(enum.Enum):
    """The operation of a BinaryExpr or UnaryExpr."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MOD = "mod"
    FLOORDIV = "floordiv"
    POW = "pow"
    GT = "gt"
    LT = "lt"
    GE = "ge"
    LE = "le"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    NOT = "not"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"
    IN = "in"
    NOT_IN = "not_in"


class Expr:
    """A computation over the columns of a row.

    Example:
        >>> from skate.data.expressions import col
        >>> (col("x") + 5).alias("y").name
        'y'
    """

    data_type: DataType

    @property
    def name(self) -> str | None:
        """The name of the column that this expression makes; None if it has no name yet."""
        return None

    def children(self) -> Iterator[tuple[str, Expr]]:
        """Yields (role of the part, expression) for each direct part."""
        return iter(())

    def with_children(self, parts: Sequence[Expr]) -> Expr:
        """The same node over other parts, which are as many as children() has."""
        return self

    def structurally_equals(self, other: Any) -> bool:
        """Whether other is the same tree."""
        if type(self) is not type(other) or self._key() != other._key():
            return False
        a, b = list(self.children()), list(other.children())
        return len(a) == len(b) and all(
            m == n and x.structurally_equals(y) for (m, x), (n, y) in zip(a, b, strict=True)
        )

    def to_pyarrow(self) -> Any:
        """The same as a pyarrow.compute.Expression; TypeError for what Arrow cannot express."""
        return evaluation.to_pyarrow(self)

    def _key(self) -> Any:
        """The values that distinguish this node from others of its class, besides its parts."""
        return ()

    def _label(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return "\n".join(self._lines("    "))

    def _lines(self, prefix: str) -> list[str]:
        out = [self._label()]
        parts = list(self.children())
        for i, (label, e) in enumerate(parts):
            last = i == len(parts) - 1
            sub = e._lines(prefix + ("    " if last else "│   "))
            out.append(
                f"{prefix}{'└── ' if last else '├── '}{label + ': ' if label else ''}{sub[0]}"
            )
            out += sub[1:]
        return out

    def __bool__(self) -> bool:
        raise TypeError(
            "an expression has no truth value before it is evaluated; combine conditions with & | ~ and compare trees with structurally_equals()"
        )

    __hash__ = object.__hash__

    def _bin(self, other: Any, op: Operation) -> Expr:
        return BinaryExpr(op, self, _expr(other))

    def __add__(self, other: Any) -> Expr:
        return self._bin(other, Operation.ADD)

    def __radd__(self, other: Any) -> Expr:
        return LiteralExpr(other)._bin(self, Operation.ADD)

    def __sub__(self, other: Any) -> Expr:
        return self._bin(other, Operation.SUB)

    def __rsub__(self, other: Any) -> Expr:
        return LiteralExpr(other)._bin(self, Operation.SUB)

    def __mul__(self, other: Any) -> Expr:
        return self._bin(other, Operation.MUL)

    def __rmul__(self, other: Any) -> Expr:
        return LiteralExpr(other)._bin(self, Operation.MUL)

    def __truediv__(self, other: Any) -> Expr:
        return self._bin(other, Operation.DIV)

    def __rtruediv__(self, other: Any) -> Expr:
        return LiteralExpr(other)._bin(self, Operation.DIV)

    def __floordiv__(self, other: Any) -> Expr:
        return self._bin(other, Operation.FLOORDIV)

    def __rfloordiv__(self, other: Any) -> Expr:
        return LiteralExpr(other)._bin(self, Operation.FLOORDIV)

    def __mod__(self, other: Any) -> Expr:
        return self._bin(other, Operation.MOD)

    def __rmod__(self, other: Any) -> Expr:
        return LiteralExpr(other)._bin(self, Operation.MOD)

    def __pow__(self, other: Any) -> Expr:
        return self._bin(other, Operation.POW)

    def __rpow__(self, other: Any) -> Expr:
        return LiteralExpr(other)._bin(self, Operation.POW)

    def __neg__(self) -> Expr:
        return self.negate()

    def __gt__(self, other: Any) -> Expr:
        return self._bin(other, Operation.GT)

    def __lt__(self, other: Any) -> Expr:
        return self._bin(other, Operation.LT)

    def __ge__(self, other: Any) -> Expr:
        return self._bin(other, Operation.GE)

    def __le__(self, other: Any) -> Expr:
        return self._bin(other, Operation.LE)

    def __eq__(self, other: Any) -> Expr:
        return self._bin(other, Operation.EQ)

    def __ne__(self, other: Any) -> Expr:
        return self._bin(other, Operation.NE)

    def __and__(self, other: Any) -> Expr:
        return self._bin(other, Operation.AND)

    def __rand__(self, other: Any) -> Expr:
        return LiteralExpr(other)._bin(self, Operation.AND)

    def __or__(self, other: Any) -> Expr:
        return self._bin(other, Operation.OR)

    def __ror__(self, other: Any) -> Expr:
        return LiteralExpr(other)._bin(self, Operation.OR)

    def __invert__(self) -> Expr:
        return UnaryExpr(Operation.NOT, self)

    def is_null(self) -> Expr:
        """True where the value is null."""
        return UnaryExpr(Operation.IS_NULL, self)

    def is_not_null(self) -> Expr:
        """True where the value is not null."""
        return UnaryExpr(Operation.IS_NOT_NULL, self)

    def is_in(self, values: Any) -> Expr:
        """True where the value is one of a list of values."""
        return self._bin(values, Operation.IN)

    def not_in(self, values: Any) -> Expr:
        """True where the value is none of a list of values."""
        return self._bin(values, Operation.NOT_IN)

    def fill_null(self, value: Any) -> Expr:
        """The value, or another one where it is null. NaN is not null.

        Args:
            value: A value or an expression.

        Example:
            >>> import skate
            >>> from skate.data.expressions import col
            >>> ds = skate.data.from_items([{"x": 1}, {"x": None}])
            >>> ds.with_column("x", col("x").fill_null(0)).take_all()
            [{'x': 1}, {'x': 0}]
        """
        return PyArrowComputeUDFExpr(
            ComputeFn("skate_fill_null", (), {}), [self, _expr(value)], {}, self.data_type
        )

    def alias(self, name: str) -> Expr:
        """The same expression under a name."""
        return AliasExpr(self, name)

    def cast(self, target_type: DataType | Any, *, safe: bool = True) -> Expr:
        """Converts the values to another type.

        Args:
            target_type: A DataType of an Arrow or NumPy type, or such a type itself
                (pyarrow.int32()); TypeError for others.
            safe: True: a value that does not fit is an error; False: it is truncated.
        """
        target_type = DataType.of(target_type, "cast: target_type")
        if target_type.is_python_type():
            raise TypeError(
                f"cast: a Python-type-backed DataType, {target_type}, requires a look at the values; name an Arrow type: DataType.int64(), DataType.string(), ..."
            )
        return _compute(
            self,
            "cast",
            target_type,
            kwargs={"target_type": target_type.to_arrow_dtype(), "safe": safe},
        )

    def ceil(self) -> Expr:
        """The next integer up."""
        return _compute(self, "ceil")

    def floor(self) -> Expr:
        """The next integer down."""
        return _compute(self, "floor")

    def round(self, decimals: int = 0) -> Expr:
        """The nearest number with so many digits behind the point (negative: before it); halves to
        even.

        Args:
            decimals: Number of digits.
        """
        return _compute(self, "round", kwargs={"ndigits": decimals} if decimals else None)

    def trunc(self) -> Expr:
        """The next integer towards zero."""
        return _compute(self, "trunc")

    def ln(self) -> Expr:
        """Natural logarithm."""
        return _compute(self, "ln", DataType.float64())

    def log10(self) -> Expr:
        """Logarithm to base 10."""
        return _compute(self, "log10", DataType.float64())

    def log2(self) -> Expr:
        """Logarithm to base 2."""
        return _compute(self, "log2", DataType.float64())

    def exp(self) -> Expr:
        """e to the power of the value."""
        return _compute(self, "exp", DataType.float64())

    def sin(self) -> Expr:
        """Sine of radians."""
        return _compute(self, "sin", DataType.float64())

    def cos(self) -> Expr:
        """Cosine of radians."""
        return _compute(self, "cos", DataType.float64())

    def tan(self) -> Expr:
        """Tangent of radians."""
        return _compute(self, "tan", DataType.float64())

    def asin(self) -> Expr:
        """Arc sine in radians."""
        return _compute(self, "asin", DataType.float64())

    def acos(self) -> Expr:
        """Arc cosine in radians."""
        return _compute(self, "acos", DataType.float64())

    def atan(self) -> Expr:
        """Arc tangent in radians."""
        return _compute(self, "atan", DataType.float64())

    def negate(self) -> Expr:
        """The negated value; an error if that overflows."""
        return _compute(self, "negate_checked")

    def sign(self) -> Expr:
        """-1, 0 or 1."""
        return _compute(self, "sign")

    def power(self, exponent: Any) -> Expr:
        """The value raised to a power."""
        return _compute(self, "power", None, exponent)

    def abs(self) -> Expr:
        """The absolute value; an error if that overflows."""
        return _compute(self, "abs_checked")

    def sum(self) -> AggregateExpr:
        """The sum, for groupby(...).agg(...). Aggregates skip null and NaN."""
        return AggregateExpr("Sum", self, "sum")

    def mean(self) -> AggregateExpr:
        """The mean, for groupby(...).agg(...)."""
        return AggregateExpr("Mean", self, "mean")

    def min(self) -> AggregateExpr:
        """The smallest value, for groupby(...).agg(...)."""
        return AggregateExpr("Min", self, "min")

    def max(self) -> AggregateExpr:
        """The largest value, for groupby(...).agg(...)."""
        return AggregateExpr("Max", self, "max")

    def count(self) -> AggregateExpr:
        """The number of values that are not null, for groupby(...).agg(...)."""
        return AggregateExpr("Count", self, "count", ignore_nulls=True)

    def std(self, ddof: int = 1) -> AggregateExpr:
        """The standard deviation, for groupby(...).agg(...).

        Args:
            ddof: The divisor is the number of values minus ddof.
        """
        return AggregateExpr("Std", self, "std", ddof=ddof)

    def var(self, ddof: int = 1) -> AggregateExpr:
        """The variance, for groupby(...).agg(...).

        Args:
            ddof: The divisor is the number of values minus ddof.
        """
        return AggregateExpr("Variance", self, "var", ddof=ddof)

    def quantile(self, quantile: float) -> AggregateExpr:
        """The exact quantile, interpolated linearly, for groupby(...).agg(...).

        Args:
            quantile: From 0 to 1.
        """
        return AggregateExpr("Quantile", self, "quantile", q=quantile)

    def median(self) -> AggregateExpr:
        """The exact median, for groupby(...).agg(...)."""
        return AggregateExpr("Quantile", self, "median", q=0.5)

    def first(self) -> AggregateExpr:
        """The first value, for groupby(...).agg(...)."""
        return AggregateExpr("First", self, "first")

    def n_unique(self) -> AggregateExpr:
        """The number of distinct values, for groupby(...).agg(...)."""
        return AggregateExpr("CountDistinct", self, "n_unique")

    def implode(self) -> AggregateExpr:
        """All values as a list in their order, also nulls, for groupby(...).agg(...)."""
        return AggregateExpr("AsList", self, "list")

    def _applied(
        self, fn: str, dtype: DataType, *args: Any, **kwargs: Any
    ) -> PyArrowComputeUDFExpr:
        """Applies an Arrow function to this expression."""
        return _compute(self, fn, dtype, *args, kwargs=kwargs)

    @property
    def str(self) -> Any:
        """Functions of text."""
        return names.StringNamespace(self)

    @property
    def list(self) -> Any:
        """Functions of lists."""
        return names.ListNamespace(self)

    @property
    def struct(self) -> Any:
        """Fields of structs."""
        return names.StructNamespace(self)

    @property
    def map(self) -> Any:
        """Keys and values of maps."""
        return names.MapNamespace(self)

    @property
    def dt(self) -> Any:
        """Functions of dates and times."""
        return names.DatetimeNamespace(self)

    @property
    def arr(self) -> Any:
        """Functions of arrays."""
        return names.ArrayNamespace(self)

    def _unalias(self) -> Expr:
        return self


_OBJECT = DataType(object)


class ColumnExpr(Expr):
    """The values of a column; "a.b" is the column of that name or, if there is none, the field b of
    the struct a."""

    def __init__(self, name: str):
        if not isinstance(name, str):
            raise TypeError(f"col() takes the name of a column, not {type(name).__name__}")
        self._name, self.data_type = name, _OBJECT

    @property
    def name(self) -> str:
        return self._name

    def _rename(self, name: str) -> Expr:
        return AliasExpr(self, name, rename=True)

    def _key(self) -> Any:
        return self._name

    def _label(self) -> str:
        return f"COL({self._name!r})"


class LiteralExpr(Expr):
    """One value for every row.

    sets: a cache of what expr/evaluation.py and expr/bounds.py made in this process of a list after "in",
    by the type of the column. The cache is no part of the tree: it is neither pickled nor
    compared."""

    __slots__ = ("sets",)

    def __init__(self, value: Any):
        self.value, self.data_type = value, DataType.infer_dtype(value)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def _key(self) -> Any:
        return type(self.value), repr(self.value)

    def _label(self) -> str:
        text = repr(self.value)
        return f"LIT({text if len(text) <= 50 else text[:47] + '...'})"


class BinaryExpr(Expr):
    """Two expressions and an operation."""

    def __init__(self, op: Operation, left: Expr, right: Expr):
        self.op, self.left, self.right, self.data_type = op, left, right, _OBJECT

    def children(self) -> Iterator[tuple[str, Expr]]:
        return iter((("left", self.left), ("right", self.right)))

    def with_children(self, parts: Sequence[Expr]) -> Expr:
        return BinaryExpr(self.op, *parts)

    def _key(self) -> Any:
        return self.op

    def _label(self) -> str:
        return self.op.name


class UnaryExpr(Expr):
    """A test of one expression, such as "is null"."""

    def __init__(self, op: Operation, operand: Expr):
        self.op, self.operand, self.data_type = op, operand, DataType.bool()

    def children(self) -> Iterator[tuple[str, Expr]]:
        return iter((("operand", self.operand),))

    def with_children(self, parts: Sequence[Expr]) -> Expr:
        return UnaryExpr(self.op, *parts)

    def _key(self) -> Any:
        return self.op

    def _label(self) -> str:
        return self.op.name


class AliasExpr(Expr):
    """An expression under a name."""

    def __init__(self, expr: Expr, name: str, rename: bool = False):
        self.expr, self._name, self._is_rename, self.data_type = expr, name, rename, expr.data_type

    @property
    def name(self) -> str:
        return self._name

    def alias(self, name: str) -> Expr:
        return AliasExpr(self.expr, name, self._is_rename)

    def _unalias(self) -> Expr:
        return self.expr

    def children(self) -> Iterator[tuple[str, Expr]]:
        return iter((("", self.expr),))

    def with_children(self, parts: Sequence[Expr]) -> Expr:
        (part,) = parts
        return AliasExpr(part, self._name, self._is_rename)

    def _key(self) -> Any:
        return self._name, self._is_rename

    def _label(self) -> str:
        return f"ALIAS({self._name!r}){' [rename]' if self._is_rename else ''}"


class UDFExpr(Expr):
    """A user function over columns: fn gets pyarrow.ChunkedArrays (and literals as plain values)
    and returns a column of equal length."""

    def __init__(self, fn: Any, args: Any, kwargs: dict[str, Expr], data_type: DataType):
        self.fn, self.args, self.kwargs, self.data_type = fn, args, kwargs, data_type

    @property
    def callable_class_spec(self) -> Any:
        """(class, args, kwargs) if fn is a class whose instances are in actors, else None."""
        return self.fn.spec if isinstance(self.fn, ClassUDF) else None

    def children(self) -> Iterator[tuple[str, Expr]]:
        yield from ((f"arg[{i}]", a) for i, a in enumerate(self.args))
        yield from ((f"kwarg[{k!r}]", a) for k, a in self.kwargs.items())

    def with_children(self, parts: Sequence[Expr]) -> Expr:
        n = len(self.args)
        kwargs = dict(zip(self.kwargs, parts[n:], strict=True))
        return type(self)(self.fn, list(parts[:n]), kwargs, self.data_type)

    def _key(self) -> Any:
        return self.fn

    def _label(self) -> str:
        return f"UDF({getattr(self.fn, '__name__', self.fn)})"


class CaseExpr(Expr):
    """The value of the first condition that is true: when(...).then(...).otherwise(...)."""

    def __init__(self, cases: Sequence[tuple[Expr, Expr]], default: Expr):
        self.cases, self.default, self.data_type = tuple(cases), default, _OBJECT

    def children(self) -> Iterator[tuple[str, Expr]]:
        for condition, value in self.cases:
            yield "when", condition
            yield "then", value
        yield "otherwise", self.default

    def with_children(self, parts: Sequence[Expr]) -> Expr:
        return CaseExpr(list(zip(parts[:-1:2], parts[1:-1:2], strict=True)), parts[-1])

    def _label(self) -> str:
        return "CASE"


class Then(CaseExpr):
    """when(...).then(value): null where no condition is true, unless otherwise() follows."""

    def __init__(self, cases: Sequence[tuple[Expr, Expr]]):
        super().__init__(cases, LiteralExpr(None))

    def when(self, condition: Expr) -> When:
        """Another condition, for the rows where none so far is true.

        Args:
            condition: An expression that is true or false; null counts as false.
        """
        return When(condition, self.cases)

    def otherwise(self, value: Any) -> Expr:
        """The value where no condition is true.

        Args:
            value: A value or an expression.
        """
        return CaseExpr(self.cases, _expr(value))


class When:
    """when(condition), which then() completes.

    Args:
        condition: An expression.
        cases: The conditions and values before it.
    """

    def __init__(self, condition: Expr, cases: Sequence[tuple[Expr, Expr]] = ()):
        if not isinstance(condition, Expr):
            raise TypeError(
                f"when: the condition is an expression such as col('x') > 0, not {type(condition).__name__}"
            )
        self._condition, self._cases = condition, tuple(cases)

    def then(self, value: Any) -> Then:
        """The value where the condition is true.

        Args:
            value: A value or an expression. Text is a value; col("x") is the column.
        """
        return Then((*self._cases, (self._condition, _expr(value))))


class AggregateExpr(Expr):
    """An aggregate of an expression over the rows of a group; only GroupedData.agg() computes it.

    Args:
        kind: Name of the class in skate.data.aggregate.
        operand: What is aggregated.
        word: The name in the result: word(column).
        options: Parameters of the class.
    """

    def __init__(self, kind: str, operand: Expr, word: str, **options: Any):
        if any(isinstance(n, AggregateExpr) for n in walk(operand)):
            raise TypeError(f"{word}(): an aggregate of an aggregate: aggregate twice")
        self.kind, self.operand, self.word, self.options = kind, operand, word, options
        self.data_type = _OBJECT

    @property
    def name(self) -> str:
        return f"{self.word}({inline(self.operand) if self.operand.name is None else self.operand.name})"

    def children(self) -> Iterator[tuple[str, Expr]]:
        return iter((("operand", self.operand),))

    def _key(self) -> Any:
        return self.kind, self.word, sorted(self.options.items())

    def _label(self) -> str:
        return self.word.upper()


class ComputeFn:
    """A function of pyarrow.compute, or of evaluation.FUNCTIONS, by name, with its constant
    arguments."""

    def __init__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.__name__, self.args, self.kwargs = name, args, kwargs

    def __call__(self, array: Any) -> Any:
        return evaluation.call(self.__name__, array, *self.args, **self.kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComputeFn) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]


class PyArrowComputeUDFExpr(UDFExpr):
    """An Arrow function of one expression."""

    fn: ComputeFn


class ClassUDF:
    """Makes a callable class a function of columns; each actor makes one instance, at its first
    batch."""

    def __init__(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.cls, self.args, self.kwargs = cls, args, kwargs
        self.__name__ = cls.__name__
        self.instance: Any = None

    @property
    def spec(self) -> tuple[Any, ...]:
        return (
            f"{self.cls.__module__}.{self.cls.__qualname__}",
            repr(self.args),
            repr(sorted(self.kwargs.items())),
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.instance is None:
            self.instance = self.cls(*self.args, **self.kwargs)
        return evaluation.finished(self.instance(*args, **kwargs))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClassUDF) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "instance": None}


class DownloadExpr(Expr):
    """The bytes of the files whose paths are in a column; null for a file that cannot be read."""

    def __init__(self, uri_column_name: str, filesystem: Any = None):
        self.uri_column_name, self.filesystem, self.data_type = (
            uri_column_name,
            filesystem,
            DataType.binary(),
        )

    def _key(self) -> Any:
        return self.uri_column_name

    def _label(self) -> str:
        return f"DOWNLOAD({self.uri_column_name!r})"


class StarExpr(Expr):
    """All columns of the batch."""

    def __init__(self) -> None:
        self.data_type = _OBJECT

    def _label(self) -> str:
        return "COL(*)"


class MonotonicallyIncreasingIdExpr(Expr):
    """A 64-bit number for each row: task number * 2**33 + row in the task. Ascending, not dense.
    It is never structurally equal to any expression, not even to itself."""

    def __init__(self) -> None:
        self._instance_id, self.data_type = str(uuid_.uuid4()), DataType.int64()

    def structurally_equals(self, other: Any) -> bool:
        return False

    def _label(self) -> str:
        return "MONOTONICALLY_INCREASING_ID()"


class RandomExpr(Expr):
    """A number from 0 to 1 for each row, by the seed and the row's place: the number of its task
    and its number in the task, which are functions of the input."""

    def __init__(self, seed: int):
        self._instance_id, self.seed, self.data_type = str(uuid_.uuid4()), seed, DataType.float64()

    def _key(self) -> Any:
        return self.seed

    def _label(self) -> str:
        return f"RANDOM(seed={self.seed})"


class UUIDExpr(Expr):
    """A random UUID (version 4) as text for each row, by the seed and the row's place."""

    def __init__(self, seed: int):
        self._instance_id, self.seed, self.data_type = str(uuid_.uuid4()), seed, DataType.string()

    def _key(self) -> Any:
        return self.seed

    def _label(self) -> str:
        return f"UUID(seed={self.seed})"


NUMBERED = (MonotonicallyIncreasingIdExpr, RandomExpr, UUIDExpr)


def _expr(v: Any) -> Expr:
    return v if isinstance(v, Expr) else LiteralExpr(v)


def _compute(
    e: Expr,
    fn: str,
    dtype: DataType | None = None,
    *args: Any,
    kwargs: dict[str, Any] | None = None,
) -> PyArrowComputeUDFExpr:
    return PyArrowComputeUDFExpr(ComputeFn(fn, args, kwargs or {}), [e], {}, dtype or e.data_type)


def _callable(fn: Any, return_dtype: DataType) -> Callable[..., UDFExpr]:
    def make(*args: Any, **kwargs: Any) -> UDFExpr:
        return UDFExpr(
            fn, [_expr(a) for a in args], {k: _expr(v) for k, v in kwargs.items()}, return_dtype
        )

    functools.update_wrapper(make, fn)
    make._original_fn = fn
    return make


def udf(return_dtype: DataType) -> Callable[[Any], Any]:
    """Decorator that makes a function of whole columns usable in expressions, or a class with
    __call__, whose instances are then in actors.

    Args:
        return_dtype: The type of the values that the function returns.

    Example:
        >>> import skate, pyarrow.compute as pc
        >>> from skate.data.expressions import col, udf
        >>> from skate.data.datatype import DataType
        >>> @udf(return_dtype=DataType.int64())
        ... def double(x):
        ...     return pc.multiply(x, 2)
        >>> skate.data.range(2).with_column("y", double(col("id"))).take_all()
        [{'id': 0, 'y': 0}, {'id': 1, 'y': 2}]
    """

    def decorate(target: Any) -> Any:
        if not (isinstance(target, type) and callable(getattr(target, "__call__", None))):  # noqa: B004  a class whose instances are called
            return _callable(target, return_dtype)

        class Made:
            def __init__(self, *args: Any, **kwargs: Any):
                self._fn = _callable(ClassUDF(target, args, kwargs), return_dtype)

            def __call__(self, *args: Any, **kwargs: Any) -> UDFExpr:
                return self._fn(*args, **kwargs)

        Made.__name__, Made.__qualname__, Made.__module__ = (
            target.__name__,
            target.__qualname__,
            target.__module__,
        )
        return Made

    return decorate


def pyarrow_udf(return_dtype: DataType) -> Callable[[Any], Any]:
    """Like udf(), for a function of pyarrow arrays."""
    return udf(return_dtype)


def col(name: str) -> ColumnExpr:
    """A column.

    Example:
        >>> import skate
        >>> from skate.data.expressions import col
        >>> skate.data.range(5).filter(expr=col("id") > 2).count()
        2
    """
    return ColumnExpr(name)


def lit(value: Any) -> LiteralExpr:
    """One value for every row."""
    return LiteralExpr(value)


def star() -> StarExpr:
    """All columns."""
    return StarExpr()


def download(uri_column_name: str, *, filesystem: Any = None) -> DownloadExpr:
    """The bytes of the files whose paths are in a column (null for a file that cannot be read).

    Args:
        uri_column_name: Name of the column of paths or URIs.
        filesystem: A pyarrow file system for paths; None: inferred from the URI.
    """
    return DownloadExpr(uri_column_name, filesystem)


def monotonically_increasing_id() -> MonotonicallyIncreasingIdExpr:
    """A different, ascending 64-bit number for each row."""
    return MonotonicallyIncreasingIdExpr()


def random(*, seed: int | None = None) -> RandomExpr:
    """A random number from 0 (included) to 1 (excluded) for each row.

    Args:
        seed: The same seed and the same input give the same numbers on every run. None: a new seed
            for this expression.

    Example:
        >>> import skate
        >>> from skate.data.expressions import random
        >>> ds = skate.data.range(1000).with_column("r", random(seed=7))
        >>> ds.take(3) == ds.take(3), 400 < ds.filter(expr="r < 0.5").count() < 600
        (True, True)
    """
    return RandomExpr(_seed("random", seed))


def uuid(*, seed: int | None = None) -> UUIDExpr:
    """A random UUID (version 4) as text for each row.

    Args:
        seed: The same seed and the same input give the same texts on every run. None: a new seed
            for this expression.

    Example:
        >>> import skate
        >>> from skate.data.expressions import uuid
        >>> len(skate.data.range(3).with_column("u", uuid()).unique("u"))
        3
    """
    return UUIDExpr(_seed("uuid", seed))


def _seed(what: str, seed: int | None) -> int:
    if seed is None:
        return uuid_.uuid4().int >> 64
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 64:
        raise ValueError(f"{what}: seed is an int from 0 to 2^64 - 1, not {seed!r}")
    return seed


def when(condition: Expr) -> When:
    """Chooses between values row by row: when(...).then(...), any number of times, then
    otherwise(...). The first condition that is true decides. A value is computed for the rows that
    take it only, so `when(col("n") > 0).then(col("sum") / col("n"))` divides by no zero.

    Args:
        condition: An expression that is true or false; null counts as false.

    Example:
        >>> import skate
        >>> from skate.data.expressions import col, when
        >>> size = (
        ...     when(col("id") < 1).then("none").when(col("id") < 3).then("few").otherwise("many")
        ... )
        >>> [row["n"] for row in skate.data.range(4).with_column("n", size).take_all()]
        ['none', 'few', 'few', 'many']
    """
    return When(condition)


# ---- Functions that inspect expression trees.


def conjuncts(e: Expr) -> Iterator[Expr]:
    """Yields the expressions that must all be true for e to be true."""
    todo = [e]
    while todo:
        e = todo.pop()
        if isinstance(e, AliasExpr):
            todo.append(e.expr)
        elif isinstance(e, BinaryExpr) and e.op is Operation.AND:
            todo += [e.right, e.left]
        else:
            yield e


def walk(e: Expr) -> Iterator[Expr]:
    """Yields the expression and all its parts."""
    yield e
    for _, part in e.children():
        yield from walk(part)


def columns_of(e: Expr) -> set[str] | None:
    """Names of the columns that the expression reads; None: it may read all."""
    out: set[str] = set()
    for n in walk(e):
        if isinstance(n, StarExpr):
            return None
        if isinstance(n, ColumnExpr):
            out.add(n._name)
        elif isinstance(n, DownloadExpr):
            out.add(n.uri_column_name)
    return out


def has_user_code(e: Expr) -> bool:
    """Whether evaluating the expression calls a user function."""
    return any(isinstance(n, UDFExpr) and not isinstance(n.fn, ComputeFn) for n in walk(e))


SYMBOLS = {
    Operation.ADD: "+",
    Operation.SUB: "-",
    Operation.MUL: "*",
    Operation.DIV: "/",
    Operation.MOD: "%",
    Operation.FLOORDIV: "//",
    Operation.POW: "**",
    Operation.GT: ">",
    Operation.LT: "<",
    Operation.GE: ">=",
    Operation.LE: "<=",
    Operation.EQ: "==",
    Operation.NE: "!=",
    Operation.AND: "&",
    Operation.OR: "|",
    Operation.IN: "in",
    Operation.NOT_IN: "not in",
}


def inline(e: Expr) -> str:
    """The expression on one line, for labels."""
    if isinstance(e, ColumnExpr):
        return f"col({e._name!r})"
    if isinstance(e, LiteralExpr):
        text = repr(e.value)
        return text if len(text) <= 20 else text[:17] + "..."
    if isinstance(e, BinaryExpr):
        a, b = (
            f"({inline(x)})" if isinstance(x, BinaryExpr) else inline(x) for x in (e.left, e.right)
        )
        return f"{a} {SYMBOLS[e.op]} {b}"
    if isinstance(e, UnaryExpr):
        a = f"({inline(e.operand)})" if isinstance(e.operand, BinaryExpr) else inline(e.operand)
        return f"~{a}" if e.op is Operation.NOT else f"{a}.{e.op.value}()"
    if isinstance(e, AliasExpr):
        return f"{inline(e.expr)}.alias({e._name!r})"
    if isinstance(e, CaseExpr):
        cases = "".join(f"when({inline(c)}).then({inline(v)})." for c, v in e.cases)
        return f"{cases}otherwise({inline(e.default)})"
    if isinstance(e, AggregateExpr):
        a = f"({inline(e.operand)})" if isinstance(e.operand, BinaryExpr) else inline(e.operand)
        return f"{a}.{e.word}()"
    if isinstance(e, UDFExpr):
        args = [inline(a) for a in e.args] + [f"{k}={inline(v)}" for k, v in e.kwargs.items()]
        return f"{getattr(e.fn, '__name__', type(e.fn).__name__)}({', '.join(args)})"
    return e._label().lower()
