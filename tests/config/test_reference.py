from __future__ import annotations

from pathlib import Path

import yaml

from ctctl.config import reference
from ctctl.config.parse import parse
from ctctl.config.settings import Settings

PAGE = Path(__file__).parents[2] / "docs/reference/configuration.md"


def test_the_reference_page_is_what_the_settings_say() -> None:
    assert PAGE.read_text() == reference.markdown(), "run `make docs`"


def test_every_default_that_the_page_names_can_be_written_into_a_file() -> None:
    for setting in reference.settings_of(Settings):
        if setting.default == "–" or "list" in setting.kind:
            continue
        section, *rest = setting.path.split(".")
        value: object = yaml.safe_load(setting.default.strip("`"))
        if setting.kind not in ("whole number", "number", "`true` · `false`"):
            value = setting.default.strip("`")
        for key in reversed(rest):
            value = {key: value}
        assert parse(yaml.safe_dump({section: value}), Settings, "f") == Settings(), setting.path


def test_the_schema_refuses_unknown_keys_everywhere() -> None:
    def check(schema: dict[str, object]) -> int:
        if "properties" not in schema:
            return 0
        assert schema["additionalProperties"] is False
        properties = schema["properties"]
        assert isinstance(properties, dict)
        return 1 + sum(check(p) for p in properties.values())

    assert check(reference.json_schema()) >= 13
