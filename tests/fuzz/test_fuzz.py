"""The short form of every kind of generated input."""

import pytest
from tests.fuzz.run import check_of, kinds

CASES = 500


@pytest.mark.parametrize("kind", kinds())
def test_every_generated_input_is_read_as_what_it_was_made_from(kind: str) -> None:
    check = check_of(kind)
    for seed in range(CASES):
        check(seed)
