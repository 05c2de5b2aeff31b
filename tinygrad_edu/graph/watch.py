"""What the user's code calls its values: local variables, read off the frames of user code while they run."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from tinygrad_edu.arrays.library import is_array
from tinygrad_edu.engine.tape import Variable, registry
from tinygrad_edu.graph.record import Line
from tinygrad_edu.graph.unpacking import lengths, unpackings
from tinygrad_edu.nn.module import Module

_ENGINE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSTALLED = tuple(
    os.path.abspath(sysconfig.get_path(key)) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")
)
_MOST = 64  # elements of a list or dict that are named one by one


class Watch:
    """While active, tells of all tensors that local variables of user code come to hold, and of what modules return.

    bound(x, name, how, depth, frame): as in `Name`; frames are numbered. returned(module, result): as it says.
    unpacked(x, names): the code takes its shape apart into these names, None for an axis without one. met: by the id of
    a module, the first variable of user code that held it.
    The definitions of fused ops count as the user's code: they are the engine's text for learners.
    """

    def __init__(
        self,
        bound: Callable[[Any, str, str, int, int], None],
        returned: Callable[[Any, Any], None],
        unpacked: Callable[[Any, list[str | None]], None],
        met: dict[int, str] | None = None,
    ) -> None:
        self.bound, self.returned, self.unpacked = bound, returned, unpacked
        self.definitions = {op.definition.__code__ for op in registry.values() if op.definition is not None}
        self.met = {} if met is None else met
        self.depth = self.frames = 0
        self.lines: dict[tuple[CodeType, int, bool], Line] = {}
        self.users: dict[str, bool] = {}

    def __enter__(self) -> Watch:
        self.before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)

    def line(self) -> Line | None:
        """The line of user code that is running."""
        frame: FrameType | None = sys._getframe(2)
        called = ""
        while frame is not None and not self._is_users(frame):
            called, frame = frame.f_code.co_name, frame.f_back
        if frame is None:
            return None
        reshapes = called in ("view", "reshape")
        key = frame.f_code, frame.f_lineno, reshapes
        if key not in self.lines:
            name = frame.f_code.co_filename
            text = linecache.getline(name, frame.f_lineno, frame.f_globals).partition("  #")[0].strip()
            given = lengths(name, frame.f_globals).get(frame.f_lineno, []) if reshapes else []
            self.lines[key] = Line(os.path.basename(name), frame.f_lineno, frame.f_code.co_name, text, given)
        return self.lines[key]

    def _is_users(self, frame: FrameType) -> bool:
        name = frame.f_code.co_filename
        if name == "<string>":  # made by dataclasses and named tuples, or typed behind `python -c`
            return bool(frame.f_globals.get("__name__") == "__main__")
        known = self.users.get(name)
        if known is None:
            path = os.path.abspath(name)
            known = not (path.startswith(_ENGINE) or path.startswith(_INSTALLED) or name.startswith("<frozen"))
            self.users[name] = known
        return known

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        forward = code.co_name == "forward" and code.co_argcount > 0
        if code not in self.definitions and not self._is_users(frame):
            if forward:
                frame.f_trace_lines = False
                return self._returning
            return None
        self.depth += 1
        self.frames += 1
        place, seen = (self.depth, self.frames), dict[str, Any]()
        shapes = unpackings(code.co_filename, frame.f_globals)

        def run(frame: FrameType, event: str, arg: Any) -> Any:
            if event in ("line", "return"):
                self._scan(frame, seen, place)
            if event == "line" and frame.f_lineno in shapes:
                self._unpacks(frame, *shapes[frame.f_lineno])
            if event == "return":
                self.depth = place[0] - 1
                if forward:
                    self._returning(frame, event, arg)
            return run

        return run

    def _returning(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "return" and arg is not None:
            self.returned(frame.f_locals.get(frame.f_code.co_varnames[0]), arg)
        return self._returning

    def _scan(self, frame: FrameType, seen: dict[str, Any], place: tuple[int, int]) -> None:
        """Tell of every local that holds another object than at the last scan."""
        arguments: tuple[str, ...] = ()
        if not seen:
            code = frame.f_code
            seen["."] = frame
            arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            for name in code.co_names:
                if isinstance(item := frame.f_globals.get(name), Variable):
                    self.bound(item, name, "assigned", *place)
                elif isinstance(item, Module):
                    self.met.setdefault(id(item), name)
        for name, item in frame.f_locals.items():
            held, record = seen.get(name, (None, None))
            now = item.record if isinstance(item, Variable) else None  # a change in place gives it another
            if held is item and record is now:
                continue
            seen[name] = item, now
            if name == "_" or name.startswith("."):
                continue
            if isinstance(item, Variable) or is_array(item):
                how = "argument" if name in arguments else "assigned" if isinstance(item, Variable) else "array"
                self.bound(item, name, how, *place)
            elif isinstance(item, Module):
                self.met.setdefault(id(item), name)
            elif isinstance(item, tuple | list | dict) and 0 < len(item) <= _MOST:
                self._elements(name, item, place)

    def _unpacks(self, frame: FrameType, variable: str, names: tuple[str | None, ...], front: int) -> None:
        item = frame.f_locals.get(variable)
        if isinstance(item, Variable):
            rest = [None] * (len(item.array.shape) - len(names))
            self.unpacked(item, [*names[:front], *rest, *names[front:]])

    def _elements(self, name: str, item: Any, place: tuple[int, int]) -> None:
        pairs = item.items() if isinstance(item, dict) else enumerate(item)
        fields = getattr(item, "_fields", None)
        for key, element in list(pairs):
            if isinstance(element, Variable) or is_array(element):
                self.bound(element, fields[key] if fields else f"{name}[{key!r}]", "element", *place)
