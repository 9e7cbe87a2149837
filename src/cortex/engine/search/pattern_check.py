"""Check of a regular expression before it is compiled.

The engine writes counted repeats out, so forty characters can ask for all memory there is, and some
ten thousand copies overflow its stack. The scan counts the written-out size, and rejects what can't
be counted and is of no use for searching code: calls of groups, approximate matching, verbose
layout, comments. Road not taken: the engine's own parser, which is private.
"""

from __future__ import annotations

import re

MAX_CHARACTERS = 2_000
# Characters; at 80,000 the engine ends the process where a thread's stack is small
MAX_WRITTEN_OUT = 10_000
MAX_DEPTH = 50

_TOKEN = re.compile(
    r"""
      (?P<count>\{(?P<least>[0-9]*),?[0-9]*\})
    | (?P<fuzzy>\{[0-9]*<?=?[deis](?=[<,:+}]))
    | (?P<flags>\(\?[aimsu]*(?:-[ims]+)?\))
    | (?P<open>\((?![?*])|\(\?(?:[=!>]|<[=!]|P?<[^\W\d]\w*>|[aimsu]*(?:-[ims]+)?:))
    | (?P<close>\))
    | (?P<atom>\(\?P=\w+\)
        | \\[pPN]\{[\^A-Za-z][A-Za-z0-9\ &_.:=/-]*\}
        | \\.?
        | \[(?:\^?\]|\^(?!\])|(?![\]^]))(?:\\.|\[:\^?[A-Za-z]+:\]|\[(?!:)|[^]\\[])*\])
    | (?P<set>\[)
    | (?P<extension>\([?*])
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def rejection_reason(expression: str) -> str:
    """Reason to reject an expression; "" if it may be compiled, valid or not."""
    if len(expression) > MAX_CHARACTERS:
        return f"it is longer than {MAX_CHARACTERS} characters"
    # Written-out sizes of the open groups, and of the element that a count would repeat.
    sizes, last = [0], 0
    for token in _TOKEN.finditer(expression):
        match token.lastgroup:
            case "open":
                sizes.append(0)
            case "close" if len(sizes) > 1:
                last = sizes.pop() + len("()")
                sizes[-1] += last
            case "count":
                more = last * max(int(token["least"] or 0) - 1, 0)
                sizes[-1] += more + 1
                last += more
            case "flags":
                # Flags may stand between an element and its count.
                sizes[-1] += 1
            case "fuzzy":
                return f"approximate matching ({token[0]}…) is not offered; write \\{{ for a brace"
            case "set":
                return "a set of characters is not closed, or holds [: (write \\[:)"
            case "extension":
                return f"{expression[token.start() : token.start() + 4]} is not offered"
            case _:
                last = len(token[0])
                sizes[-1] += last
        if len(sizes) > MAX_DEPTH:
            return f"groups stand deeper in each other than {MAX_DEPTH}"
        if sum(sizes) > MAX_WRITTEN_OUT:
            return f"with its repeats written out it has more than {MAX_WRITTEN_OUT:,} characters"
    return ""
