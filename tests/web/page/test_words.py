"""Every text of the page has a Russian translation, and nothing else is translated."""

import json
import re
from importlib.resources import files
from typing import Any

from tests.support.cases import for_each

from ragtide_offline.corruptions.interactions import CORRUPTIONS
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.open_sessions import waiting_texts
from ragtide_schemas.fitness import SIGHTS
from ragtide_schemas.headline import HEADLINE_STATES, STOP_REASONS
from ragtide_web.page.rendering import environment
from ragtide_web.page.screen_files import FOLDERS
from ragtide_web.page.words import LANGUAGES, words

PAGE = files("ragtide_web.page")
TEMPLATES = sorted(
    f"{folder}/{file.name}"
    for folder in FOLDERS
    for file in PAGE.joinpath(folder).iterdir()
    if file.name.endswith(".html")
)
GETTEXT: Any = environment(LANGUAGES[0], ())  # the extension adds a method to it
PLACE = re.compile(r"%\((\w+)\)s")


def texts_of(template: str) -> set[tuple[str, bool]]:
    """Return the texts of a template, and whether each has plural forms."""
    source = PAGE.joinpath(template).read_text(encoding="utf-8")
    found: set[tuple[str, bool]] = set()
    for _, function, message in GETTEXT.extract_translations(source):
        first = message[0] if isinstance(message, tuple) else message
        if first is not None:  # None is a value that the screen gives
            found.add((first, function == "ngettext"))
    return found


@for_each("template", TEMPLATES)
def test_every_text_of_a_template_has_a_translation(template: str) -> None:
    known = words("ru").catalogue
    missing = [
        text
        for text, plural in texts_of(template)
        if not (isinstance(known.get(text), list) if plural else isinstance(known.get(text), str))
    ]
    assert missing == []


def test_every_state_has_a_translation() -> None:
    said = (*HEADLINE_STATES, *STOP_REASONS, "resolved")
    assert [state for state in said if state not in words("ru").catalogue] == []


def test_what_is_said_of_open_sessions_has_a_translation() -> None:
    every = {text for by in ("auto", "blocks", "segment:lang") for text in waiting_texts(ClusterSettings(by=by))}
    assert every <= words("ru").catalogue.keys()


def test_a_translation_has_the_places_of_its_text() -> None:
    for text, found in words("ru").catalogue.items():
        for one in found if isinstance(found, list) else [found]:
            assert set(PLACE.findall(str(one))) == set(PLACE.findall(text)), text
        assert not isinstance(found, list) or len(found) == 3, text


def test_no_text_is_translated_in_two_ways() -> None:
    seen: dict[str, object] = {}
    for path in PAGE.joinpath("locale", "ru").iterdir():
        for text, found in json.loads(path.read_text(encoding="utf-8")).items():
            assert seen.setdefault(text, found) == found, f"{path.name}: {text}"


def test_plural_forms() -> None:
    said = {n: words("ru").ngettext("%(num)s alert", "%(num)s alerts", n) % {"num": n} for n in (0, 1, 2, 5, 11, 21)}
    assert said == {0: "0 тревог", 1: "1 тревога", 2: "2 тревоги", 5: "5 тревог", 11: "11 тревог", 21: "21 тревога"}
    assert words("en").ngettext("%(num)s alert", "%(num)s alerts", 1) == "%(num)s alert"


def test_every_failure_that_a_labeler_may_see_is_translated() -> None:
    assert {*CORRUPTIONS, *SIGHTS} - {"HTML"} <= words("ru").catalogue.keys()
