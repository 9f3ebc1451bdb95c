"""Generated parts of hand-written pages: where they stand, and what replaces them."""

import pytest
from tools.pages.parts import parts_of, with_part

pytestmark = pytest.mark.pure

PAGE = """# A page

<!-- generated: one -->
old
<!-- /generated -->
between
<!-- generated: two -->

kept

<!-- /generated -->
"""


def test_a_part_replaces_what_stands_in_its_place() -> None:
    assert parts_of(PAGE) == ["one", "two"]
    page = with_part(PAGE, "one", "new\\1\n")
    assert page == PAGE.replace("\nold\n", "\n\nnew\\1\n\n")
    assert with_part(page, "one", "new\\1") == page


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the part 'three': write the lines <!-- generated: three -->"):
        with_part(PAGE, "three", "new")
