"""What all tools share: options from dataclasses, and one line with exit code 2 for a user's mistake."""

import argparse
import contextlib
import dataclasses
import difflib
import io
import itertools
import os
import signal
import sys
import typing
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import simple_parsing
from simple_parsing.docstring import get_attribute_docstring

from tinygrad_edu.data.checked import InputError

_FEW = 6  # names that fit into a line
_PATHS = ("--out", "--save", "--resume", "--init-from", "--data", "--model", "--search")


class UserError(Exception):
    """Something the user can put right; its message says what is wrong and how."""


class _Help(simple_parsing.SimpleHelpFormatter):
    """Defaults where there are some, and "FILE [FILE ...]" for what may be given several times."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = super()._get_help_string(action)
        return shown if action.default not in (None, "", ()) else (shown or "").removesuffix(" (default: %(default)s)")

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.option_strings:
            return super()._format_args(action, default_metavar)
        return argparse.HelpFormatter._format_args(self, action, default_metavar)


class Parser(simple_parsing.ArgumentParser):
    """An argument parser for dataclasses whose errors are UserErrors and which names the nearest option.

    A boolean field `tied` is understood as --tied, --no-tied, --tied False, --tied 0, --tied no and their opposites.
    """

    def __init__(self, program: str, description: str, add_help: bool = True) -> None:
        super().__init__(
            prog=f"python -m tools.{program}",
            description=description,
            add_help=add_help,
            formatter_class=_Help,
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
        for name, value in itertools.pairwise([*arguments, None]):
            given = name is not None and name.partition("=")[0]
            if given in _PATHS and (name == f"{given}=" or (name == given and value == "")):
                self.error(f"{given} is empty, as a variable of the shell is that was not set; name a path")
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
    names = {name.lstrip("-"): name for name in sorted(known)}
    given = given.partition("=")[0]
    line = f"unknown {kind} {given!r}"
    if near := difflib.get_close_matches(given.lstrip("-"), names, n=1):
        return f"{line}; did you mean {names[near[0]]!r}?"
    return line if len(names) > _FEW else f"{line}; known are {', '.join(names.values())}"


def escaped(text: str, keep: str = "") -> str:
    r"""The text with each character that steers a terminal or cannot be seen written as its number.

    These are control and format characters, among them ESC, BEL, backspace, CR, those of C1, and what turns the order
    of writing round; halves of surrogate pairs; and the separators of lines and paragraphs. The joiners that words of
    Persian and Hindi, and many emoji, are spelled with stay; so do the characters in `keep`.

    >>> escaped("a\x1b[31mb\u202ec\td\n", keep="\n\t")
    'a\\x1b[31mb\\u202ec\td\n'
    """
    if text.isprintable():
        return text
    steering = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        c if c in keep or c in _JOINERS or unicodedata.category(c) not in steering else ascii(c)[1:-1] for c in text
    )


_JOINERS = "\u200c\u200d"


def say(text: object, end: str = "\n", flush: bool = False, file: Any = None) -> None:
    """Print a text of many lines. On a terminal what steers it is escaped; a file or a pipe gets the text as it is."""
    stream, shown = file or sys.stdout, str(text)
    print(escaped(shown, keep="\n\t") if stream.isatty() else shown, end=end, flush=flush, file=stream)


def complain(program: str, text: object) -> None:
    """Print one line on stderr, with the program's name."""
    print(f"{program}: {escaped(' '.join(str(text).split()))}", file=sys.stderr)


@contextmanager
def _own_warnings(program: str) -> Iterator[None]:
    """Within the block a warning to the user is one line; numbers that overflow give none, as what comes of them is
    looked at."""
    before = warnings.showwarning

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        if category is UserWarning:
            complain(program, message)
        else:
            before(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(overflow|invalid value|divide by zero) encountered", RuntimeWarning)
        warnings.showwarning = show
        yield


@contextmanager
def users_mistakes(kinds: tuple[type[Exception], ...] = (ValueError, OSError)) -> Iterator[None]:
    """Errors of these kinds, which arise from what the user gave, turned into UserErrors.

    For the part of a tool that takes the user's wishes in; an error after that is a fault of ours and keeps its trace.
    """
    try:
        yield
    except kinds as error:
        raise UserError(str(error)) from error
    except OverflowError as error:
        raise UserError(f"a number that was given is too large ({error})") from error


def elsewhere(folder: str, model: str, task: str) -> UserError:
    """The error for a run's folder that holds a model for another tool; task: of the model, see `LanguageModel`.

    >>> print(elsewhere("runs/ocr", "ocr", "images"))
    runs/ocr holds the model 'ocr', which reads images; let tools.read run it
    """
    does, tool = {
        "text": ("writes texts", "generate"),
        "pairs": ("answers texts", "generate"),
        "masked": ("fills in masked tokens", "fill"),
        "images": ("reads images", "read"),
    }[task]
    return UserError(f"{folder} holds the model {model!r}, which {does}; let tools.{tool} run it")


def ending(tokenizer: Any) -> int:
    """The token that ends an answer. Raises UserError for a tokenizer without one."""
    if tokenizer.end is None:
        raise UserError("the tokenizer of this run has no token that ends a text, so no answer would end")
    return tokenizer.end


def run(program: str, main: Callable[[list[str]], int], arguments: list[str] | None = None) -> int:
    """Run a tool; its exit code. One line on stderr and exit code 2 for a UserError, an InputError wherever it is
    raised, output that cannot be written, and memory that does not suffice; Ctrl-C has 130."""
    own = arguments is None  # the process belongs to this tool, with all its streams
    if own:
        _prepare()
    try:
        with _own_warnings(program):
            code = main(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return code
    except (UserError, InputError) as error:
        complain(program, error)
        return 2
    except MemoryError as error:
        why = f" ({error})" if str(error) else ""
        complain(program, f"there is not enough memory{why}; choose smaller sizes, or a smaller file or model")
        return 2
    except KeyboardInterrupt as error:
        complain(program, "interrupted")
        number = error.args[0] if error.args else None
        return 128 + (number if isinstance(number, int) else signal.SIGINT)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and error.filename is None:
            # whoever read the output has closed it, as `head` does
            _drop(sys.stdout)
            return 1
        complain(program, error)
        if own:
            _drop(sys.stdout)
        return 2


def _drop(stream: Any) -> None:
    """Send what a stream still holds nowhere: it cannot be written, and must not fail once more at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _interrupt(number: int, _: Any) -> NoReturn:
    raise KeyboardInterrupt(number)


def _prepare() -> None:
    """Let the signals that end a program end it as Ctrl-C does, so that what it was writing is cleared away; and make
    good what the shell may have left out: closed streams, a terminal that cannot show every character."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as it is for a program started in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):  # Windows knows no SIGHUP
        if signal.getsignal(number) is signal.SIG_DFL:  # ignored under nohup
            signal.signal(number, _interrupt)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


class Steady:
    """A stream before another one that takes text for it, and goes on without where that one takes no more.

    lost: called once with the error, then.
    """

    def __init__(self, stream: Any, lost: Callable[[Exception], None]) -> None:
        self._stream, self._lost, self._open = stream, lost, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, what: Callable[[], Any]) -> None:
        if not self._open:
            return
        try:
            what()
        except (OSError, ValueError) as error:
            self._open = False
            _drop(self._stream)
            self._lost(error)


@contextmanager
def steady_output(program: str) -> Iterator[None]:
    """Within the block, a reader who goes away (`head`) or a full disk behind stdout ends the output, nothing else."""

    def lost(error: Exception) -> None:
        why = getattr(error, "strerror", None) or error
        with contextlib.suppress(OSError, ValueError):
            complain(program, f"the output cannot be written ({why}); going on without")

    stream: Any = Steady(sys.stdout, lost)
    with contextlib.redirect_stdout(stream):
        yield
        stream.flush()
