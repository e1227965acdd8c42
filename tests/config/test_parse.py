"""The configuration file is read strictly: whatever is not exactly meant is refused with file, line and path."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctctl.config.parse import parse, parse_duration
from ctctl.config.settings import Settings
from ctctl.errors import ConfigError


class Colour(StrEnum):
    OFF = "off"
    ON = "on"
    DARK_RED = "dark_red"


@dataclass(frozen=True, slots=True)
class Wheel:
    size: int = 28
    pressure: float = 4.5


@dataclass(frozen=True, slots=True)
class Bicycle:
    name: str = "plain"
    is_new: bool = False
    colour: Colour = Colour.ON
    interval_s: float = 15.0
    note: str | None = None
    bells: tuple[str, ...] = ()
    gears: tuple[int, ...] = ()
    wheel: Wheel = field(default_factory=Wheel)

    def __post_init__(self) -> None:
        if self.name == "cursed":
            raise ValueError("no such name may be given")


@dataclass(frozen=True, slots=True)
class Owned:
    owner: str
    wheel: Wheel = field(default_factory=Wheel)


def read(text: str) -> Bicycle:
    return parse(text, Bicycle, "b.yaml")


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "null\n", "~", "---\n...\n", "{}"])
def test_an_empty_file_is_all_defaults(text: str) -> None:
    assert read(text) == Bicycle()


def test_an_empty_section_is_its_defaults() -> None:
    assert read("wheel:\n") == Bicycle()
    assert read("wheel: {}\n") == Bicycle()


def test_every_kind_of_value_is_read() -> None:
    text = """
name: "tandem"
is_new: true
colour: dark_red
interval: 1m30s
note: three words here
bells: [ring, 'on']
gears: [1, -2, 0]
wheel: {size: 26, pressure: 3}
"""
    wanted = Bicycle(
        name="tandem",
        is_new=True,
        colour=Colour.DARK_RED,
        interval_s=90.0,
        note="three words here",
        bells=("ring", "on"),
        gears=(1, -2, 0),
        wheel=Wheel(26, 3.0),
    )
    assert read(text) == wanted


def test_a_byte_order_mark_is_no_text() -> None:
    assert read("\N{ZERO WIDTH NO-BREAK SPACE}name: x\n").name == "x"


def test_json_is_yaml() -> None:
    assert read('{"name": "x", "wheel": {"size": 20}}') == Bicycle("x", wheel=Wheel(20))


def test_an_anchor_may_be_used_again() -> None:
    assert read("bells: &b [ding]\nname: &n x\nnote: *n\n").note == "x"


# Words that YAML 1.1 would read as something else.


@pytest.mark.parametrize(("word", "colour"), [("off", Colour.OFF), ("on", Colour.ON), ('"off"', Colour.OFF)])
def test_bare_on_and_off_are_the_words_they_look_like(word: str, colour: Colour) -> None:
    assert read(f"colour: {word}").colour is colour


@pytest.mark.parametrize("word", ["yes", "no", "on", "off", "y", "1", "0", '"true"', "TRUE!", "null"])
def test_only_true_and_false_are_bools(word: str) -> None:
    assert "is_new: expected true or false" in refusal(f"is_new: {word}")


@pytest.mark.parametrize(
    "word", ["010", "0x10", "0b1", "0o7", "1_000", "1:30", "1e3", "1.0", "+5", '"5"', "five", "", "true", "9" * 5000]
)
def test_whole_numbers_are_plain_decimal_digits(word: str) -> None:
    assert "b.yaml:2: wheel.size: expected a whole number" in refusal(f"wheel:\n  size: {word}\n")


@pytest.mark.parametrize(
    ("word", "value"), [("3", 3.0), ("0.5", 0.5), (".5", 0.5), ("1e3", 1000.0), ("-2.5e-1", -0.25)]
)
def test_numbers_may_have_a_fraction_and_an_exponent(word: str, value: float) -> None:
    assert read(f"wheel: {{pressure: {word}}}").wheel.pressure == value


@pytest.mark.parametrize("word", [".nan", ".inf", "-.inf", "1e999", "nan", "1:30.5", "1_0.5", "010.5", "true"])
def test_numbers_are_finite_and_decimal(word: str) -> None:
    assert "wheel.pressure: expected a number" in refusal(f"wheel: {{pressure: {word}}}")


@pytest.mark.parametrize("word", ["123", "1e3", "1.5", "010", "yes", "off", "null", "~", ""])
def test_text_that_yaml_reads_as_something_else_is_refused_unless_quoted(word: str) -> None:
    if word == "1e3":  # YAML 1.1 has no such number, so it is the text it looks like
        assert read("name: 1e3").name == "1e3"
        return
    assert "name: expected text" in refusal(f"name: {word}")
    assert "in quotes" in refusal(f"name: {word}")
    assert read(f'name: "{word}"').name == word


@pytest.mark.parametrize("word", ["2026-13-45", "2026-01-01", "=", "<<", "unix:/run/a.sock", "é ☃"])
def test_other_plain_text_stays_as_written(word: str) -> None:
    assert read(f"name: {word}").name == word


def test_text_with_a_zero_byte_is_refused() -> None:
    assert "name: expected text" in refusal('name: "a\\0b"')


def test_an_optional_value_may_be_null() -> None:
    assert read("note: null").note is None
    assert read("note:").note is None


# Durations.


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15.0), ("500ms", 0.5), ("2m", 120.0), ("1m30s", 90.0), ("1.5h", 5400.0), ("0s", 0.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
    assert read(f"interval: {text}").interval_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "15", "1.5", "s", "-5s", "15 s", "15sec", "1d", "5S", "1e3s", "١s", ".5s", "5.s", "1s,2s", "9" * 400 + "s"],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)
    if text.strip():
        assert "interval: expected a duration such as 15s" in refusal(f"interval: '{text}'")


def test_a_duration_beyond_a_year_is_refused() -> None:
    assert parse_duration("8760h") == 365 * 86400
    assert "interval" in refusal("interval: 8761h")


def test_a_list_is_no_duration() -> None:
    assert "interval: expected a duration such as 15s, 500ms or 2m, got a list" in refusal("interval: [15s]")


# Errors name file, line and path.


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    assert refusal("name: x\ncolor: on\n") == "b.yaml:2: color: unknown key; did you mean colour?"


def test_an_unknown_key_that_resembles_nothing_is_told_all_known_ones() -> None:
    message = refusal("wheel:\n  size: 1\n  zzzzzz: 1\n")
    assert message == "b.yaml:3: wheel.zzzzzz: unknown key; known: pressure, size"


def test_a_duration_is_known_by_its_key_not_by_its_field() -> None:
    assert "did you mean interval?" in refusal("interval_s: 15s")


def test_a_wrong_word_is_told_the_right_ones() -> None:
    assert refusal("colour: dark-red") == (
        "b.yaml:1: colour: expected one of off, on, dark_red, got `dark-red`; did you mean dark_red?"
    )


@pytest.mark.parametrize("text", ["name: a\nname: b\n", 'name: a\n"name": b\n', "interval: 1s\ninterval: 2s\n"])
def test_a_key_given_twice_is_refused(text: str) -> None:
    assert refusal(text).startswith("b.yaml:2: ")
    assert refusal(text).endswith(": given twice")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n- b\n", "b.yaml:1: expected keys and values, got a list"),
        ("hello\n", "b.yaml:1: expected keys and values, got `hello`"),
        ("wheel: 5\n", "b.yaml:1: wheel: expected keys and values, got `5`"),
        ("\nwheel: [1]\n", "b.yaml:2: wheel: expected keys and values, got a list"),
        ("name: [a]\n", "b.yaml:1: name: expected a single value, got a list"),
        ("name: {a: b}\n", "b.yaml:1: name: expected a single value, got a mapping"),
        ("colour: {a: b}\n", "b.yaml:1: colour: expected a single value, got a mapping"),
        ("bells: ding\n", "b.yaml:1: bells: expected a list, got `ding`"),
        ("bells:\n", "b.yaml:1: bells: expected a list, got ``"),
        ("bells: [a, [b]]\n", "b.yaml:1: bells.1: expected a single value, got a list"),
        ("gears:\n- 1\n- two\n", "b.yaml:3: gears.1: expected a whole number, got `two`"),
        ("? [a, b]\n: c\n", "b.yaml:1: expected a key, got a list"),
        ("? {a: b}\n: c\n", "b.yaml:1: expected a key, got a mapping"),
        ("name: cursed\n", "b.yaml:1: no such name may be given"),
    ],
)
def test_the_wrong_kind_is_told_from_the_right_one(text: str, problem: str) -> None:
    assert refusal(text) == problem


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ConfigError, match=r"o\.yaml:1: missing key owner"):
        parse("wheel: {}", Owned, "o.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "name: [\n",
        "name: 'open\n",
        "a: b: c\n",
        "\tname: x\n",
        "name: x\n bad: y\n",
        "name: *nowhere\n",
        "--- a\n--- b\n",
        "@x",
        "name: \x01",
        "%YAML 3.0\n---\nname: x",
    ],
)
def test_what_is_no_yaml_is_refused_with_its_line(text: str) -> None:
    assert "b.yaml:" in refusal(text)
    assert "not plain YAML" in refusal(text)
    assert refusal(text).split(":")[1].strip().isdigit()


def test_a_character_that_does_not_exist_is_refused() -> None:
    assert "not plain YAML" in refusal('name: "\\UFFFFFFFF"')


@pytest.mark.parametrize(
    "text",
    [
        "name: !!str x",
        "wheel: {size: !!int '5'}",
        "wheel: !!null {size: 5}",
        "wheel: !!set {size}",
        "name: !!python/object/apply:os.system [ls]",
        "name: ! x",
        "!!map {name: x}",
    ],
)
def test_tags_are_refused_not_obeyed_and_not_ignored(text: str) -> None:
    assert "b.yaml:1: not plain YAML: tags such as !!int are not understood" in refusal(text)


def test_merge_keys_are_refused() -> None:
    assert "b.yaml:2: wheel.<<: unknown key" in refusal("name: &n x\nwheel: {<<: {size: 5}}\n")


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(refusal(f"colour: {'x' * 100_000}")) < 200
    assert len(refusal(f"{'x' * 1000}: 1")) < 200


def test_a_name_cannot_steer_a_terminal_through_the_message() -> None:
    message = refusal('"\\e[31mred\\nline": 1')
    assert message.isprintable()


def test_deep_nesting_is_refused_and_not_fatal() -> None:
    assert "nested too deeply" in refusal("[" * 5000 + "]" * 5000)


def test_many_aliases_cost_nothing() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    assert "a0: unknown key" in refusal("\n".join(lines))


KEYS = ("name", "is_new", "colour", "interval", "note", "bells", "gears", "wheel", "size", "flush", "switch", "web")
FRAGMENTS = (*KEYS, ": ", "\n", "\n  ", "- ", "[", "]", "{", "}", ", ", '"', "'", "&a ", "*a", "!!int ", "|", ">", "#")
VALUES = ("off", "1e3", "010", "15s", "2026-01-01", "~", "\\", "%", "@", "`", "<<", "? ", "---\n", "...", "\x00", "\t")


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(FRAGMENTS + VALUES), max_size=25).map("".join)))
@example("!!timestamp 2026-99-99")
@example("&a [*a]")
@example('"\\UFFFFFFFF"')
@example("\ud800")
def test_no_text_raises_anything_but_a_config_error(text: str) -> None:
    for schema in (Bicycle, Settings):
        try:
            parse(text, schema, "x")
        except ConfigError as error:
            assert str(error).startswith("x:")
            assert str(error).isprintable()
