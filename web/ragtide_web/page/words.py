"""The words of the page in the languages of its users.

English is in the templates. `locale/` has a folder for each other language, with a file for each screen.
"""

import gettext
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from ragtide_schemas.base import read_json_object

LANGUAGES: Final = ("en", "ru")
"""Languages of the page, the default first."""
COOKIE: Final = "ragtide_language"


class Words(gettext.NullTranslations):
    """The words of one language. A word without a translation stays English.

    Args:
        language: one of `LANGUAGES`.
        catalogue: translation by English text; a list of the three Russian plural forms by the English singular.
    """

    def __init__(self, language: str, catalogue: Mapping[str, object]) -> None:
        super().__init__()
        self.language = language
        self.catalogue = catalogue

    def gettext(self, message: str) -> str:
        """Return the translation of a text."""
        found = self.catalogue.get(message)
        return found if isinstance(found, str) else message

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """Return the translation of a text with a number in it."""
        found = self.catalogue.get(msgid1)
        if isinstance(found, list):
            return str(found[russian_form(n)])
        return msgid1 if n == 1 else msgid2


def russian_form(n: int) -> int:
    """Return which plural form a number takes in Russian: 0 as 1, 1 as 2, 2 as 5.

    >>> [russian_form(n) for n in (1, 2, 5, 11, 21, 22, 112)]
    [0, 1, 2, 2, 0, 1, 2]
    """
    if n % 10 == 1 and n % 100 != 11:
        return 0
    return 1 if n % 10 in (2, 3, 4) and n % 100 not in (12, 13, 14) else 2


@cache
def words(language: str) -> Words:
    """Return the words of a language of `LANGUAGES`."""
    if language == LANGUAGES[0]:
        return Words(language, {})
    catalogue: dict[str, object] = {}
    for screen in files("ragtide_web.page").joinpath("locale", language).iterdir():
        catalogue |= read_json_object(screen.read_bytes())
    return Words(language, catalogue)


def language_of(cookie: str | None, accepted: str) -> str:
    """Return the language of a viewer: the chosen one, or the first known one of the browser.

    >>> language_of(None, "de-DE,ru;q=0.8,en;q=0.5"), language_of("en", "ru"), language_of("xx", "")
    ('ru', 'en', 'en')
    """
    if cookie in LANGUAGES:
        return cookie
    for part in accepted[:200].split(","):
        name = part.partition(";")[0].strip().lower().partition("-")[0]
        if name in LANGUAGES:
            return name
    return LANGUAGES[0]
