"""Promises of the OVSDB notation and of the requests made with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.errors import ProtocolError
from ctctl.wire.jsonrpc import JsonValue
from ctctl.wire.ovsdb import Select, plain_value, selected_rows, text_map_of, text_of, transact_params

BRIDGE = Select("Bridge", ("name", "datapath_type", "external_ids"))
LOCAL = (Select("Open_vSwitch", ("external_ids", "ovs_version")), BRIDGE)

# As ovsdb-server 3.1 answered the request that `transact_params` builds.
ANSWER: JsonValue = [
    {"rows": [{"external_ids": ["map", [["ovn-remote", "unix:/x"], ["system-id", "ch1"]]], "ovs_version": "3.1.0"}]},
    {
        "rows": [
            {
                "name": "br-int",
                "datapath_type": "system",
                "external_ids": ["map", [["ct-zone-lr1_dnat", "3"], ["ovn-nb-cfg", "7"]]],
            },
            {"name": "br-ex", "datapath_type": "", "external_ids": ["map", []]},
        ]
    },
]


def test_an_answer_is_read_whole() -> None:
    tables = selected_rows(ANSWER, LOCAL)
    assert tables == {
        "Open_vSwitch": [{"external_ids": {"ovn-remote": "unix:/x", "system-id": "ch1"}, "ovs_version": "3.1.0"}],
        "Bridge": [
            {"name": "br-int", "datapath_type": "system", "external_ids": {"ct-zone-lr1_dnat": "3", "ovn-nb-cfg": "7"}},
            {"name": "br-ex", "datapath_type": "", "external_ids": {}},
        ],
    }


def test_the_request_is_one_transaction_of_selects_only() -> None:
    database, *operations = transact_params("Open_vSwitch", LOCAL)
    assert database == "Open_vSwitch"
    assert operations == [
        {"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["external_ids", "ovs_version"]},
        {"op": "select", "table": "Bridge", "where": [], "columns": ["name", "datapath_type", "external_ids"]},
    ]


def test_a_refused_operation_is_an_error_with_the_servers_words() -> None:
    answer: JsonValue = [{"rows": []}, {"error": "unknown column", "details": "No column nb_uuid in table Bridge."}]
    with pytest.raises(ProtocolError, match=r"unknown column: No column nb_uuid"):
        selected_rows(answer, LOCAL)


def test_an_error_after_the_last_operation_is_not_overlooked() -> None:
    assert isinstance(ANSWER, list)
    with pytest.raises(ProtocolError, match="I/O error"):
        selected_rows([*ANSWER, {"error": "I/O error", "details": "disk"}], LOCAL)


def test_every_truncation_of_an_answer_is_refused() -> None:
    assert isinstance(ANSWER, list)
    row = {"name": "br-int", "datapath_type": "system"}
    truncated: list[JsonValue] = [[], ANSWER[:1], [ANSWER[0], {}], [ANSWER[0], {"rows": [row]}], [ANSWER[0], None]]
    for answer in truncated:
        with pytest.raises(ProtocolError):
            selected_rows(answer, LOCAL)


@pytest.mark.parametrize("answer", [None, 7, "rows", {}, {"rows": []}, [7, 7], [{"rows": 7}, {"rows": 7}]])
def test_garbage_for_an_answer_is_refused(answer: JsonValue) -> None:
    with pytest.raises(ProtocolError):
        selected_rows(answer, LOCAL)


@pytest.mark.parametrize(
    ("datum", "value"),
    [
        ("text", "text"),
        (0, 0),
        (True, True),
        (1.5, 1.5),
        (["uuid", "6f8a…"], "6f8a…"),
        (["set", []], frozenset()),
        (["set", ["a", "b"]], frozenset({"a", "b"})),
        (["set", [["uuid", "x"]]], frozenset({"x"})),
        (["map", []], {}),
        (["map", [["k", "v"]]], {"k": "v"}),
        (["map", [["k", ["uuid", "x"]], [1, 2]]], {"k": "x", 1: 2}),
    ],
)
def test_every_kind_of_value_is_understood(datum: JsonValue, value: object) -> None:
    assert plain_value(datum) == value


@pytest.mark.parametrize(
    "datum",
    [
        None,
        {},
        [],
        ["set"],
        ["set", {}],
        ["set", [None]],
        ["map"],
        ["map", {}],
        ["map", ["kv"]],
        ["map", [["k"]]],
        ["map", [["k", "v", "w"]]],
        ["map", [[["set", []], "v"]]],
        ["map", [["k", None]]],
        ["uuid", 7],
        ["other", "x"],
    ],
)
def test_garbage_for_a_value_is_refused(datum: JsonValue) -> None:
    with pytest.raises(ProtocolError):
        plain_value(datum)


@given(st.dictionaries(st.text(), st.text()))
def test_every_text_map_survives(content: dict[str, str]) -> None:
    assert plain_value(["map", [[key, value] for key, value in content.items()]]) == content


def test_text_of_an_optional_column_is_empty_when_the_column_is() -> None:
    assert text_of(frozenset()) == ""
    assert text_of(frozenset({"3.1.0"})) == "3.1.0"
    assert text_of("3.1.0") == "3.1.0"
    assert text_of(None) == ""
    assert text_of({"k": "v"}) == ""


def test_a_column_that_is_no_map_reads_as_an_empty_one() -> None:
    assert text_map_of(None) == {}
    assert text_map_of("text") == {}
    assert text_map_of({"k": "v"}) == {"k": "v"}
