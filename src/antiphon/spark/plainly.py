"""Errors for Spark, which shows whoever asked every frame between its own call and the error."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from antiphon.errors import AntiphonError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def plainly(work: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """`work`, whose errors tell what is wrong and not through which of our functions it was found out."""

    @wraps(work)
    def working(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        try:
            return work(*arguments, **named)
        except AntiphonError as error:
            raise error.with_traceback(None) from None

    return working
