"""Dates and numbers as people write them, each beside its plain form: a task for models that rewrite a text."""

import datetime
from collections.abc import Callable, Iterator

import numpy as np

UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["_", "_", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"}
ORDINALS |= {"twelve": "twelfth"}
MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
LARGEST = 999_999

Pair = tuple[str, str]  # what is read, what is to be written


def words(number: int, joined: str = " and ") -> str:
    """A number in words, from 0 to 999,999; `joined` stands behind hundreds, and behind thousands before less than 100.

    >>> words(342_007)
    'three hundred and forty-two thousand and seven'
    >>> words(342_007, " ")
    'three hundred forty-two thousand seven'
    """
    if number < 20:
        return UNITS[number]
    if number < 100:
        return TENS[number // 10] + (f"-{UNITS[number % 10]}" if number % 10 else "")
    size, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    many, rest = divmod(number, size)
    between = joined if size == 100 or rest < 100 else " "
    return f"{words(many, joined)} {name}" + (f"{between}{words(rest, joined)}" if rest else "")


def ordinal(number: int) -> str:
    """The place in a row in words, from 1 to 99.

    >>> [ordinal(n) for n in (1, 12, 20, 31)]
    ['first', 'twelfth', 'twentieth', 'thirty-first']
    """
    start, dash, last = words(number).rpartition("-")
    if last in ORDINALS:
        return start + dash + ORDINALS[last]
    return start + dash + (last[:-1] + "ieth" if last.endswith("y") else last + "th")


def short_ordinal(number: int) -> str:
    """The place in a row in digits.

    >>> [short_ordinal(n) for n in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


def year_in_words(year: int) -> str:
    """A year as it is read out.

    >>> [year_in_words(year) for year in (1900, 1905, 1994, 2007, 2016)]
    ['nineteen hundred', 'nineteen oh five', 'nineteen ninety-four', 'two thousand and seven', 'twenty sixteen']
    """
    century, rest = divmod(year, 100)
    if 2000 <= year < 2010:
        return words(year)
    if rest == 0:
        return f"{words(century)} hundred"
    return f"{words(century)} {'oh ' if rest < 10 else ''}{words(rest)}"


# how a date is written: each of a date, with its month's name
DATE_FORMS: tuple[Callable[[datetime.date, str], str], ...] = (
    lambda d, month: f"{month} {d.day}, {d.year}",
    lambda d, month: f"{d.day} {month} {d.year}",
    lambda d, month: f"{month[:3]} {d.day} {d.year}",
    lambda d, month: f"{d.day}-{month[:3]}-{d.year}",
    lambda d, month: f"{d.year}/{d.month}/{d.day}",
    lambda d, month: f"{d.year}, {month} {short_ordinal(d.day)}",
    lambda d, month: f"the {short_ordinal(d.day)} of {month}, {d.year}",
    lambda d, month: f"{DAYS[d.weekday()]}, {d.day} {month} {d.year}",
    lambda d, month: f"{DAYS[d.weekday()][:3]}, {month[:3]} {short_ordinal(d.day)}, {d.year}",
    lambda d, month: f"{month} the {ordinal(d.day)}, {year_in_words(d.year)}",
    lambda d, month: f"the {ordinal(d.day)} of {month} {year_in_words(d.year)}",
)
NUMBER_FORMS: tuple[Callable[[int], str], ...] = (
    words,
    lambda n: words(n, " "),
    lambda n: words(n).replace("-", " "),
    lambda n: f"{n:,}",
)


def held_out(value: int) -> bool:
    """Whether a date's ordinal number, or a number, is kept for measuring: one in ten, in no order."""
    return (value * 2654435761 >> 16) % 10 == 9  # Knuth's multiplier: neighbours fall apart


def written(count: int, measured: bool = False, seed: int = 0) -> Iterator[Pair]:
    """`count` pairs of a date or number in one of many forms, and the date as ISO 8601 or the number in digits.

    measured: values that are held out, instead of values that are not: no date or number stands in both. Dates from
    1900 to 2099, numbers below a million, of every length as often.

    >>> for pair in written(3):
    ...     print(pair)
    ('2027, May 24th', '2027-05-24')
    ('four', '4')
    ('eighty one', '81')
    """
    drawn = np.random.default_rng((seed, int(measured)))
    while count:
        if drawn.integers(2):
            value = int(drawn.integers(FIRST.toordinal(), LAST.toordinal() + 1))
            date = datetime.date.fromordinal(value)
            form = DATE_FORMS[drawn.integers(len(DATE_FORMS))]
            pair = form(date, MONTHS[date.month - 1]), date.isoformat()
        else:
            value = int(drawn.integers(10 ** drawn.integers(1, len(str(LARGEST)) + 1)))
            pair = NUMBER_FORMS[drawn.integers(len(NUMBER_FORMS))](value), str(value)
        if held_out(value) == measured:
            count -= 1
            yield pair
