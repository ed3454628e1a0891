"""The dialect: what is accepted, what it means, and what is refused with which words."""

from __future__ import annotations

import calendar
from itertools import product

import pytest

from mainspring.domain.cron import NAMED, CronExpression, parse
from mainspring.domain.errors import InvalidInput


def refusal(expression: object) -> str:
    with pytest.raises(InvalidInput) as raised:
        parse(expression)
    assert raised.value.field == "cron"
    return raised.value.message


def test_fields_become_numbers():
    parsed = parse("*/20 8-10,22 1,L jan-mar/2 MON-FRI")
    assert parsed.minutes == (0, 20, 40)
    assert parsed.hours == (8, 9, 10, 22)
    assert (parsed.days, parsed.has_last_day) == ({1}, True)
    assert parsed.months == {1, 3}
    assert parsed.weekdays == {1, 2, 3, 4, 5}
    assert parsed.times[:4] == (480, 500, 520, 540)


@pytest.mark.parametrize(
    ("expression", "attribute", "numbers"),
    [
        ("5-5 * * * *", "minutes", {5}),
        ("05,5,005 * * * *", "minutes", {5}),
        ("0-59 * * * *", "minutes", set(range(60))),
        ("10-20/7 * * * *", "minutes", {10, 17}),
        ("10-20/30 * * * *", "minutes", {10}),
        ("*/60 * * * *", "minutes", {0}),
        ("3,* * * * *", "minutes", set(range(60))),
        ("0 00-05/02 * * *", "hours", {0, 2, 4}),
        ("0 0 */31 * *", "days", {1}),
        ("0 0 L * *", "days", set()),
        ("0 0 * Jan,DEC *", "months", {1, 12}),
        ("0 0 * * 7", "weekdays", {0}),
        ("0 0 * * 0-7", "weekdays", set(range(7))),
        ("0 0 * * 6-7", "weekdays", {6, 0}),
        ("0 0 * * 5-7/2", "weekdays", {5, 0}),
        ("0 0 * * fri-7", "weekdays", {5, 6, 0}),
        ("0 0 * * sun-sat", "weekdays", set(range(7))),
        ("0 0 * * */7", "weekdays", {0}),
        ("0 0 * * sat-sat", "weekdays", {6}),
    ],
)
def test_one_field(expression: str, attribute: str, numbers: set[int]):
    assert set(getattr(parse(expression), attribute)) == numbers


@pytest.mark.parametrize(("name", "fields"), NAMED.items())
def test_an_at_name_is_its_five_fields(name: str, fields: str):
    named, spelled = parse(f" {name}\n"), parse(fields)
    assert named.text == name
    assert (named.times, named.days, named.months, named.weekdays) == (
        spelled.times, spelled.days, spelled.months, spelled.weekdays
    )  # fmt: skip
    assert named.is_fixed_time is (name != "@hourly")


def test_c10_white_space_is_trimmed_and_normalised():
    assert parse("\t 0  12 * *\t* \n").text == "0 12 * * *"
    assert parse("0 12 * * *\n") == parse("0 12 * * *")


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("R R * * *", "minute 'r'"),
        ("0 0 * * * 30", "6 fields"),
        ("0 0 12 * * ?", "6 fields"),
        ("0 0 1 1 * 0 2020", "7 fields"),
        ("0 22-2 * * *", "hour '22-2': runs backwards"),
        ("50-10 * * * *", "minute '50-10'"),
        ("0 0 * * sat-sun", "day of week 'sat-sun': runs backwards"),
        ("0 0 * NOV-FEB *", "month 'nov-feb'"),
        ("*/61 * * * *", "minute '*/61': a step is 1 to 60"),
        ("*/100 * * * *", "minute"),
        ("*/0 * * * *", "minute '*/0'"),
        ("0 */25 * * *", "hour"),
        ("0 0 */32 * *", "day of month"),
        ("0 0 * */13 *", "month"),
        ("0 0 * * */8", "day of week"),
        ("0/1 * * * ?", "minute '0/1': a step needs a range or a star, such as 0-59/1"),
        ("0 0 * * ?", "day of week '?'"),
        ("", "0 fields"),
        (" \n", "0 fields"),
        ("* * * *", "4 fields"),
        ("0-59/1," * 20000, "140000 characters"),
        (None, "NoneType"),
        (5, "int"),
        (b"* * * * *", "bytes"),
        (["* * * * *"], "list"),
        ("@Daily", "'@Daily' is none of @hourly"),
        ("@reboot", "'@reboot'"),
        ("@every 5m", "'@every 5m'"),
        ("0 0 L5 * *", "day of month 'l5'"),
        ("0 0 5L * *", "day of month"),
        ("0 0 L-3 * *", "day of month"),
        ("0 0 1-L * *", "day of month"),
        ("0 0 L/2 * *", "day of month"),
        ("0 0 15W * *", "day of month"),
        ("0 0 LW * *", "day of month"),
        ("0 0 * * L", "day of week"),
        ("0 0 * * 5#6", "day of week '5#6'"),
        ("H H * * *", "minute"),
        ("60 * * * *", "minute '60': 60 is not 0 to 59"),
        ("0 24 * * *", "hour"),
        ("0 0 0 * *", "day of month"),
        ("0 0 32 * *", "day of month"),
        ("0 0 * 0 *", "month '0': 0 is not 1 to 12 or JAN to DEC"),
        ("0 0 * 13 *", "month"),
        ("0 0 * * 8", "day of week"),
        ("0 0 * january *", "month 'january'"),
        ("jan * * * *", "minute 'jan'"),
        ("-1 * * * *", "minute '-1'"),
        ("1- * * * *", "minute"),
        ("1-2-3 * * * *", "minute"),
        ("*-5 * * * *", "minute"),
        ("1,,2 * * * *", "minute ''"),
        ("1, * * * *", "minute ''"),
        ("*/5/2 * * * *", "minute"),
        ("*/-5 * * * *", "minute"),
        ("+5 * * * *", "minute"),
        ("1.5 * * * *", "minute"),
        ("\N{ARABIC-INDIC DIGIT FIVE} * * * *", "minute"),
        ("\N{SUPERSCRIPT TWO} * * * *", "minute"),
        ("0\N{NO-BREAK SPACE}0 * * *", "4 fields"),
        ("0 0 * * *\0", "day of week"),
    ],
)
def test_c10_all_but_the_documented_dialect_is_refused(expression: object, part: str):
    assert part in refusal(expression)


def test_c10_length_is_checked_before_parsing():
    assert len(parse("0 0 * * " + ",".join(["0"] * 124) + " ").weekdays) == 1
    assert "257 characters" in refusal(" " * 248 + "* * * * *")


@pytest.mark.parametrize(
    "expression", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 2 *", "0 0 30 2 */2", "0 0 31 feb-feb *,1"]
)
def test_c08_dates_that_never_come_are_refused(expression: str):
    assert "never comes: day of month 3" in refusal(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 31 4 1",
        "0 0 30 2 1",
        "0 0 29 2 *",
        "0 0 29 2 */7",
        "0 0 30,L 2 *",
        "0 0 31 4-5 *",
        "0 0 */31 2 1",
    ],
)
def test_c08_dates_that_come_are_accepted(expression: str):
    assert isinstance(parse(expression), CronExpression)


def test_c08_a_day_and_month_are_accepted_if_a_leap_year_has_them():
    for month, day in product(range(1, 13), range(1, 32)):
        if day <= calendar.monthrange(2024, month)[1]:
            parse(f"0 0 {day} {month} *")
        else:
            refusal(f"0 0 {day} {month} *")


@pytest.mark.parametrize(
    ("expression", "is_fixed_time", "needs_both_days"),
    [
        ("0 0 * * *", True, True),
        ("0,30 1-5/2 1 * *", True, True),
        ("*/5 0 1 * 1", False, False),
        ("0 */2 */2 * 1", False, True),
        ("0 * 1 * */2", False, True),
        ("0 0 1-31 * 0-6", True, False),
        ("0,* 0 1,* * 1", True, False),
        ("0 *,3 *,1 * 1", False, True),
    ],
)
def test_a_leading_star_decides_how_fields_are_read(expression: str, is_fixed_time: bool, needs_both_days: bool):
    parsed = parse(expression)
    assert (parsed.is_fixed_time, parsed.needs_both_days) == (is_fixed_time, needs_both_days)
