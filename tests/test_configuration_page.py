"""docs/reference/configuration.md is what the schema generates."""

from config_reference import PAGE, page


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"
