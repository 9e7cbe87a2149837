"""Regular expressions that are refused or accepted before they are compiled."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.engine.search.pattern_check import MAX_CHARACTERS, rejection_reason

ORDINARY = [
    r"def \w+\(",
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
    r"^\s{0,200}class\s+(?P<name>\w+)(?:\(.*?\))?:$",
    r"(?i)todo|fixme|xxx",
    r"(?s:begin.*?end)",
    r"(['\"])(?:(?!\1).)*\1",
    r"(?P<quote>['\"]).*?(?P=quote)",
    r"(?<!\w)x(?=\d)|(?<=a+)b",
    r"[]^-]|[^][]+|[[:alpha:]_]{3}",
    r"if \(x\) \{$|\$\{name\}|{\s*$|a{,5}b{2,}",
    r"\p{Lu}\w{2,30}\N{DIGIT ONE}\x41\u00e9",
    r"[\s\S]{0,100000}?end",
    r".{9999}",
]
BOMBS = [
    "(?:(?:(?:a{9999}){9999}){9999})?zz",
    "a{99999999}",
    "a{10000000,}",
    "(?:ab){1000000}",
    "(?:a|bc){20000}",
    "(?:(?:a{99}){99}){99}",
    "(?:a{9999}){9999}(?#comment){9999}",
    "(?:a{999})(?i){999}",
    "[[:a:b:](?:a{9999}){9999}]",
    "[[:al pha:][]a(?:a{9999}){9999}]",
    r"\N{99999999}",
    "[^]](?:a{9999}){9999}",
    "(?x)a{9 9 9 9 9 9 9}",
    "(?V1)[[a]--[b]]{99999999}",
    "(?R)",
    "(a(?1)?b)",
    "(?P<x>a(?&x)?)",
    "(?:abcdef){e<=3}",
    "(?:abcdef){2i+1d<=4}",
    "(?:abcdef){0<e<3}",
    "(*PRUNE)",
    "(" * 60 + "a" + ")" * 60,
    "a" * (MAX_CHARACTERS + 1),
]
COMPILE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, 1_500_000_000))
import regex, threading
threading.stack_size(512 * 1024)
worst = [pattern for pattern in eval(sys.stdin.read())]
def work():
    for pattern in worst:
        regex.compile(pattern, regex.MULTILINE | regex.VERSION0)
thread = threading.Thread(target=work)
thread.start()
thread.join()
# Not ru_maxrss: that one starts with the peak of the parent process.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print("done", int(peak.split()[1]) // 1024)
"""


@pytest.mark.parametrize("expression", ORDINARY)
def test_ordinary_expression_is_accepted(expression):
    import regex

    assert rejection_reason(expression) == ""
    regex.compile(expression, regex.VERSION0)


@pytest.mark.parametrize("expression", BOMBS)
def test_exploding_expression_is_refused_with_a_reason(expression):
    assert rejection_reason(expression)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_largest_accepted_expressions_compile_in_little_memory_and_stack():
    worst = [
        "a{9990}",
        "(?:a|bc){1600}",
        "(?:a?){2400}",
        "(?=a){1600}",
        "(?:(?:a|bc)*){1000}",
        r"(?:\R){2400}",
    ]
    worst += [
        "(?i)[" + "".join(chr(0x410 + 3 * n) for n in range(990)) + "]{10}",
        "|".join("ab" * 330),
        "(" * 49 + ")*" * 49,
    ]
    assert [rejection_reason(pattern) for pattern in worst] == [""] * len(worst)
    ran = subprocess.run(
        [sys.executable, "-c", COMPILE],
        input=repr(worst),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=30,
    )
    assert ran.returncode == 0, ran.stderr
    said, megabytes = ran.stdout.split()
    assert said == "done"
    assert int(megabytes) < 150


pieces = st.sampled_from(
    [
        *"ab(){}[]^-|?*+\\,:<",
        "(?:",
        "{3}",
        "{99}",
        "[:",
        "[:alpha:]",
        ":]",
        "\\p{Lu}",
        "(?i)",
        "{e}",
    ]
)


@given(st.lists(pieces | st.characters(), max_size=30).map("".join))
def test_check_ends_for_any_text_and_finds_a_bomb_behind_it(text):
    assert isinstance(rejection_reason(text), str)
    if not set(text) & set("[\\"):
        assert rejection_reason(text + "(?:a{9999}){9999}")
