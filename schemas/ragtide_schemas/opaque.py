"""Texts that a program printed of an object that is no text: `<generator object f at 0x7f>`, `[object Object]`."""

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
_CALL: Final = re.compile(r"[A-Z]\w{2,80}\(\s{0,200}[a-z_]\w{0,60}=[A-Z<'\"\[{(]")


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
    return stripped[-1:] != ")" and _CALL.match(stripped) is not None and _has_no_end(stripped)


def _has_no_end(text: str) -> bool:
    """Whether the first bracket of a text is never closed: `StopEvent(result=AgentOutput(respo...`."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if not depth and character == ")":
            return False
    return True
