"""What all tools share: options from dataclasses, and one line with exit code 2 for a user's mistake."""

import dataclasses
import difflib
import os
import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import simple_parsing
from simple_parsing.docstring import get_attribute_docstring


class UserError(Exception):
    """Something the user can put right; its message says what is wrong and how."""


class Parser(simple_parsing.ArgumentParser):
    """An argument parser for dataclasses whose errors are UserErrors and which names the nearest option.

    A boolean field `tied` is understood as --tied, --no-tied, --tied False, --tied 0, --tied no and their opposites.
    """

    def __init__(self, program: str, description: str, add_help: bool = True) -> None:
        super().__init__(
            prog=f"python -m tools.{program}",
            description=description,
            add_help=add_help,
            add_option_string_dash_variants=simple_parsing.DashVariant.DASH,
            allow_abbrev=False,
        )

    def add_options(self, defaults: Any, title: str, hidden: Iterable[str] = ()) -> None:
        """An option for each field of a dataclass instance, explained by the comment or docstring beside the field;
        the instance's values are the defaults. The parsed ones come back from `parse` under `title`."""
        kind = type(defaults)
        hints = typing.get_type_hints(kind)
        fields = [
            (
                f.name,
                hints[f.name],
                _option(getattr(defaults, f.name), get_attribute_docstring(kind, f.name).help_string),
            )
            for f in dataclasses.fields(kind)
            if f.name not in hidden
        ]
        options = dataclasses.make_dataclass(title, fields)
        options.__module__ = "builtins"  # has no source that would be searched, for a third of a second, for help
        self.add_arguments(options, dest=title)

    def add_argument_group(self, title: str | None = None, description: str | None = None, **kwargs: Any) -> Any:  # type: ignore[override]
        shown = title.partition(" [")[0] + " options" if title and "['" in title else title
        return super().add_argument_group(shown, None, **kwargs)

    def parse(self, arguments: list[str]) -> Any:
        """The parsed arguments; raises UserError for the first that is wrong."""
        found, rest = self.parse_known_args(arguments)
        for text in rest:
            if text.startswith("-"):
                self.error(unknown("option", text, [name for name in self._option_string_actions if name[:2] == "--"]))
        if rest:
            self.error(f"unexpected argument {rest[0]!r}")
        return found

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (--help lists all options)")


def _option(default: Any, explanation: str) -> Any:
    if isinstance(default, bool):
        return simple_parsing.flag(default, negative_prefix="--no-", help=explanation)
    return simple_parsing.field(default=default, help=explanation)


def unknown(kind: str, given: str, known: Iterable[str]) -> str:
    """The line on a name that is not known, with the nearest one that is.

    >>> unknown("model", "gtp", ["bigram", "gpt"])
    "unknown model 'gtp'; did you mean 'gpt'?"
    """
    names = sorted(known)
    given = given.partition("=")[0]
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    return f"unknown {kind} {given!r}; " + (f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}")


@contextmanager
def users_mistakes(kinds: tuple[type[Exception], ...] = (ValueError, OSError)) -> Iterator[None]:
    """Errors of these kinds, which arise from what the user gave, turned into UserErrors.

    For the part of a tool that takes the user's wishes in; an error after that is a fault of ours and keeps its trace.
    """
    try:
        yield
    except kinds as error:
        raise UserError(str(error)) from error


def run(program: str, main: Callable[[list[str]], int], arguments: list[str] | None = None) -> int:
    """Run a tool; its exit code. A UserError becomes one line on stderr and exit code 2, Ctrl-C 130."""
    try:
        return main(sys.argv[1:] if arguments is None else arguments)
    except UserError as error:
        print(f"{program}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # whoever read the output has closed it, as `head` does; nothing may be flushed to it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
