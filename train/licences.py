"""Permissive licence of an archive by metadata and files; "" for others and in doubt.

Knows the top level of an archive only; `is_restricted` looks at a single file's header. Road not
taken: a package that identifies all SPDX licences; only the permissive ones matter here, and each
says what it is in one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PERMISSIVE = (
    "MIT",
    "MIT-0",
    "ISC",
    "BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "0BSD",
    "Apache-2.0",
    "BSL-1.0",
    "Zlib",
    "Unlicense",
    "CC0-1.0",
    "PSF-2.0",
    "Python-2.0",
    "NCSA",
    "PostgreSQL",
)
_SENTENCES: tuple[tuple[str, str], ...] = (
    ("Apache-2.0", r"apache license,?\s+version 2\.0"),
    ("MIT", r"permission is hereby granted, free of charge, to any person obtaining"),
    (
        "BSD-3-Clause",
        r"redistribution and use in source and binary forms.{0,1500}?neither the names?",
    ),
    ("BSD-2-Clause", r"redistribution and use in source and binary forms"),
    (
        "ISC",
        r"permission to use, copy, modify,? and(/or)? distribute this software for any purpose",
    ),
    ("BSL-1.0", r"boost software license"),
    ("Zlib", r"this software is provided 'as-is', without any express or implied"),
    ("Unlicense", r"this is free and unencumbered software released into the public domain"),
    ("CC0-1.0", r"cc0 1\.0 universal"),
    ("PSF-2.0", r"python software foundation license"),
)
_SENTENCES_COMPILED = tuple(
    (name, re.compile(sentence, re.S | re.I)) for name, sentence in _SENTENCES
)
_RESTRICTED = re.compile(
    r"GNU (LESSER |LIBRARY |AFFERO )?GENERAL PUBLIC|\b[AL]?GPL|Mozilla Public|\bMPL\b|Eclipse Public|\bEPL\b|\bCDDL\b|European Union Public|"
    r"NonCommercial|Business Source|Commons Clause|SSPL|Server Side Public|Artistic License|proprietary|all rights reserved\.?\s*$",
    re.I,
)
_RESTRICTED_HEADERS = (
    "general public license",
    "general public licence",
    "gpl",
    "mozilla public",
    "eclipse public",
    "cddl",
    "noncommercial",
    "business source",
    "commons clause",
    "server side public",
    "artistic license",
    "proprietary",
    "confidential",
)
_FILE = re.compile(r"^(license|licence|copying|copyright|unlicense|mit-license)[^/]*$", re.I)
_ALIASES = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache-2": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache2": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "mit license": "MIT",
    "the mit license": "MIT",
    "the mit license (mit)": "MIT",
    "expat": "MIT",
    "bsd license": "BSD",
    "new bsd license": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause",
    "modified bsd": "BSD-3-Clause",
    "3-clause bsd": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "bsd3": "BSD-3-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "psf": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
    "public domain": "Unlicense",
}
_CANONICAL = {name.lower(): name for name in PERMISSIVE} | _ALIASES


def licence_of(files: Mapping[str, str]) -> str:
    """The permissive licence of these top-level files (name -> text); "" in any doubt."""
    stated = _stated(files)
    texts = [text for name, text in sorted(files.items()) if _FILE.match(name)]
    if any(_RESTRICTED.search(_heart(text)) for text in texts) and " or " not in stated.lower():
        return ""
    if stated:
        return permissive(stated)
    found = [
        name
        for name, sentence in _SENTENCES_COMPILED
        if any(sentence.search(text) for text in texts)
    ]
    return " AND ".join(
        name for name in found if name != "BSD-2-Clause" or "BSD-3-Clause" not in found
    )


def states_licence(files: Mapping[str, str]) -> bool:
    """True for files that mention a licence."""
    return bool(_stated(files)) or any(_FILE.match(name) for name in files)


def permissive(expression: str) -> str:
    """`MIT OR Apache-2.0` -> `MIT`: the first permissive choice, all of a conjunction, or ""."""
    plain = (
        re.sub(r"[()]", " ", expression) if re.search(r"\b(OR|AND)\b", expression) else expression
    )
    for choice in re.split(r"\s+or\s+|\s*/\s*|\s*\|\|?\s*", plain.strip(), flags=re.I):
        parts = [
            _CANONICAL.get(part.strip().lower(), "")
            for part in re.split(r"\s+and\s+|\s*,\s+(?!version)", choice, flags=re.I)
        ]
        if all(parts):
            return " AND ".join(dict.fromkeys(parts))
    return ""


def is_restricted(text: str) -> bool:
    """True for a file whose header has another kind of licence than its package."""
    header = text[:2500].lower()
    return any(words in header for words in _RESTRICTED_HEADERS)


def _stated(files: Mapping[str, str]) -> str:
    """The licence in the package's metadata, verbatim."""
    metadata = files.get("PKG-INFO", "")
    head = metadata.split("\n\n", 1)[0]
    expression = re.search(r"^License-Expression: (.+)$", head, re.M)
    if expression:
        return expression[1].strip()
    classifiers = re.findall(r"^Classifier: License :: (?:OSI Approved :: )?(.+)$", head, re.M)
    classifiers = [name for name in classifiers if name != "OSI Approved"]
    if classifiers:
        return " AND ".join(classifiers) if len(classifiers) > 1 else classifiers[0]
    line = re.search(r"^License: (.+)$", head, re.M)
    if line and line[1].strip().lower() in _CANONICAL:
        return line[1].strip()
    for name, pattern in (
        ("package.json", r'"license"\s*:\s*(?:\{[^}]*"type"\s*:\s*)?"([^"]+)"'),
        ("Cargo.toml", r'^license\s*=\s*"([^"]+)"'),
        ("composer.json", r'"license"\s*:\s*\[?\s*"([^"]+)"'),
    ):
        found = re.search(pattern, files.get(name, ""), re.M)
        if found:
            return found[1]
    return ""


def _heart(text: str) -> str:
    """A licence file without the sentences in which permissive licences name others."""
    return re.sub(r"(?i)all rights reserved\.?", "", text)[:6000]
