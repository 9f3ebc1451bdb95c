"""Texts that a program printed: objects that are no text, `<generator object f at 0x7f>`; a text that grows."""

import re
from typing import Final

OBJECT_CHARS: Final = 4_000
"""A longer text is no printed object; a call that was cut may be longer."""
_PRINTED: Final = re.compile(
    r"""\#?<(?:
        [A-Za-z_][\w.]{0,200}(?:\[[^<>]{0,200}\])?(?:\ (?:[^<>]|<\w{1,20}>){0,400})?(?:\ at\ |:)0x[0-9A-Fa-f]+.*
      | (?:generator|coroutine|async_generator|function|built-in\ (?:function|method))\ (?:object\b)?[^<>]{0,200}
      | (?:(?:un)?bound\ method|slot\ wrapper|method(?:-wrapper)?)\ (?:'|\w+\.).*
      | (?:class|module)\ '.* | frozen\ \w.* | lambda
      | (?:[A-Z]\w{0,60})?Mock\ (?:name|id|spec)=.*
      | [\w.]{0,60}(?:Task|Future)\ (?:pending|finished|cancelled|running|name=).*
      | [A-Za-z_][\w.]{0,200}(?:\ object)?\(.*
      | \w[\w.]{0,100}\ object
      | [\w.]{1,200}\ \[\d{3}(?:\ [\w ]{1,40})?\]
      | (?:Enumerator|Proc|Method|Thread|Fiber):.*
      | _io\.\w+\ name=.*
    )>
  | \[object\ [A-Z]\w{0,60}\](?:,\[object\ [A-Z]\w{0,60}\])*
  | \[(?:class|(?:Async)?(?:Generator)?Function)(?::\ |\ )[\w.$()<> ]{1,100}\]
  | Promise\ \{\ (?:<|'|\[|undefined).{0,2000}\}
  | (?:Object|\w{0,40}Generator|\w{0,40}Iterator|\w{0,40}Stream)\ \[[\w ]{1,60}\]\ \{[^{}]{0,200}\}
  | \[*L?(?:[a-z_]\w{0,60}\.){2,12}[A-Z][\w$./]{0,200};?@[0-9a-f]{1,16}
  | [a-z_]\w{0,60}\.[A-Z][\w$./]{0,200}@[0-9a-f]{6,16}
  | System\.[\w.+]{1,200}(?:`\d+\[[\w.,` \[\]+]{0,400}\]|\[\]) | System\.Object
  | \(\*?[\w.]{1,200}\)\(0x[0-9a-f]{4,16}\) | 0xc[0-9a-f]{9}
    """,
    re.VERBOSE | re.DOTALL,
)
_CALL: Final = re.compile(r"[A-Z]\w{2,80}\(\s{0,200}(?:[a-z_]\w{0,60}(?:=[A-Z<'\"\[{(]|=?$)|$)")
_MARK: Final = re.compile(r"""\\.|(?<![^\s([{,:=])(?<![^\s([{,:=]\s)['"]|[][(){}]""", re.DOTALL)
"""A bracket, or a quote that may begin a text, because of what stands before it."""
_BEFORE_QUOTES: Final = frozenset(("", "(", "[", "{", ",", ":", "="))
_REST: Final = {quote: re.compile(rf"[^{quote}\\]*(?:\\.[^{quote}\\]*)*{quote}", re.DOTALL) for quote in "'\""}
"""The rest of a text in quotes."""


def is_opaque(text: str) -> bool:
    """Return whether a whole text is what a program prints of an object that is no text, or a printed object cut short.

    >>> is_opaque("<generator object App.stream at 0x7f7a9a8b3890>"), is_opaque("[object Object]")
    (True, True)
    >>> is_opaque("<b>Yes</b>"), is_opaque("Use <generator object> in Python."), is_opaque("f(x=1)")
    (False, False, False)
    """
    stripped = text.strip(" \t\r\n'\"")
    if len(stripped) <= OBJECT_CHARS and _PRINTED.fullmatch(stripped):
        return True
    return _CALL.match(stripped) is not None and never_closes(stripped)


def never_closes(text: str) -> bool:
    """Return whether the first bracket of a text, or a quote after it, is never closed: the text was cut.

    >>> never_closes("StopEvent(result=AgentOutput(respo..."), never_closes("Create(name=')') makes it.")
    (True, False)
    """
    return closing_place(text) < 0


def closing_place(text: str) -> int:
    """Return the place of the bracket that closes the first one; -1 if none does, or a quote is never closed."""
    depth = at = 0
    while (mark := _MARK.search(text, at)) is not None:
        character, at = mark[0], mark.end()
        if character in _REST:
            before = text[at - 2 : at - 1]
            if before.isspace():
                before = text[max(0, at - 50) : at - 1].rstrip()[-1:]
            if before in _BEFORE_QUOTES:
                rest = _REST[character].match(text, at)
                if rest is None:
                    return -1
                at = rest.end()
        elif character[0] != "\\":
            depth += 1 if character in "([{" else -1
            if depth <= 0:
                return at - 1
    return -1 if depth else len(text)


def begins_again(text: str) -> bool:
    """Return whether the second line of a text begins with its first, as of a growing text that is printed each time.

    Args:
        text: without white space before it.
    """
    end = max(text.find("\n"), 0)
    first, between = text[:end].rstrip(), text[end : end + _BLANKS]
    return bool(first) and text.startswith(first, end + len(between) - len(between.lstrip()))


_BLANKS: Final = 6
"""Characters after a line in which the next one begins."""
