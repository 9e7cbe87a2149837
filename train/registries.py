"""Sources of archives: the indexes of pip, npm and apt on this machine.

Knows names, versions and links; nothing of licences or contents. Road not taken: the clients' own
download commands, which start a process for each archive, and in pip's case run the package's
build.
"""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import urllib.parse
import urllib.request
from functools import cache
from html import unescape

from train.archives import Archive, sha256_of

TIMEOUT_SECONDS = 120.0
_LINK = re.compile(r'<a href="([^"#]+)#sha256=([0-9a-f]{64})"([^>]*)>([^<]+)</a>')
_SDIST = re.compile(r"^(?P<name>.+)-(?P<version>\d[\w.!+]*)\.(tar\.gz|tgz|zip|tar\.bz2)$")
_FINAL = re.compile(r"^\d+(\.\d+)*(\.post\d+)?$")
SUITES = ("trixie", "bookworm", "sid", "forky")  # a mirror may lack what its index lists


def fetch(link: str, timeout: float = TIMEOUT_SECONDS) -> bytes:
    """The bytes behind a link."""
    with urllib.request.urlopen(link, timeout=timeout) as answer:  # a link of a configured index
        return answer.read()


def releases(registry: str, name: str) -> list[Archive]:
    """Released source archives of a package, preferred first; no hash if the registry has none."""
    return {"pypi": _pypi_releases, "npm": _npm_releases, "debian": _debian_releases}[registry](
        name
    )


def link_of(archive: Archive) -> str:
    """The exact address of this archive."""
    if archive.registry == "pypi":
        links = {file: link for file, (link, _) in _pypi_files(archive.name).items()}
        return links[archive.file]
    if archive.registry == "npm":
        document = json.loads(
            fetch(f"{_npm_base()}/{urllib.parse.quote(archive.name, safe='@')}/{archive.version}")
        )
        return document["dist"]["tarball"]
    prefix = archive.name[:4] if archive.name.startswith("lib") else archive.name[:1]
    return f"{_debian_base()}/pool/main/{prefix}/{archive.name}/{archive.file}"


def download(archive: Archive, limit: int | None = None) -> bytes | None:
    """The archive's bytes, checked by hash where one is known; None if larger than `limit`."""
    content = fetch(link_of(archive))
    if archive.sha256 and sha256_of(content) != archive.sha256:
        raise ValueError(f"{archive.package}: {archive.file} has another hash than the list")
    return None if limit is not None and len(content) > limit else content


def debian_names() -> list[str]:
    """The source packages of the suites."""
    return sorted({name for suite in SUITES for name in _debian_sources(suite)})


@cache
def _pypi_base() -> str:
    from pip._internal.configuration import Configuration
    from pip._internal.models.index import PyPI

    settings = Configuration(isolated=False)
    settings.load()
    named = dict(settings.items())
    return str(
        named.get("global.index-url") or named.get(":env:.index-url") or PyPI.simple_url
    ).rstrip("/")


@cache
def _npm_base() -> str:
    answer = subprocess.run(
        ["npm", "config", "get", "registry"], capture_output=True, text=True, timeout=60, check=True
    )
    return answer.stdout.strip().rstrip("/")


@cache
def _debian_base() -> str:
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    lines = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()
    return next(line.rstrip("/") for line in lines if line.rstrip("/").endswith("/debian"))


def _pypi_files(name: str) -> dict[str, tuple[str, str]]:
    base = f"{_pypi_base()}/{re.sub(r'[-_.]+', '-', name).lower()}/"
    page = fetch(base).decode("utf-8")
    return {
        unescape(file): (urllib.parse.urljoin(base, unescape(link)), sha256)
        for link, sha256, rest, file in _LINK.findall(page)
        if "data-yanked" not in rest
    }


def _pypi_releases(name: str) -> list[Archive]:
    best: tuple[tuple[int, ...], Archive] | None = None
    for file, (_, sha256) in _pypi_files(name).items():
        match = _SDIST.match(file)
        if match is None or not _FINAL.match(match["version"]):
            continue
        order = tuple(int(part) for part in re.findall(r"\d+", match["version"]))
        if best is None or order > best[0]:
            best = (order, Archive("pypi", name, match["version"], file, sha256))
    return [best[1]] if best else []


def _npm_releases(name: str) -> list[Archive]:
    document = json.loads(fetch(f"{_npm_base()}/{urllib.parse.quote(name, safe='@')}/latest"))
    file = document["dist"]["tarball"].rsplit("/", 1)[-1]
    return [Archive("npm", name, document["version"], file, "")]


def _debian_releases(name: str) -> list[Archive]:
    return list(
        {found[name]: None for suite in SUITES if name in (found := _debian_sources(suite))}
    )


@cache
def _debian_sources(suite: str) -> dict[str, Archive]:
    index = lzma.decompress(fetch(f"{_debian_base()}/dists/{suite}/main/source/Sources.xz")).decode(
        "utf-8"
    )
    found: dict[str, Archive] = {}
    for stanza in index.split("\n\n"):
        name = re.search(r"^Package: (\S+)", stanza, re.M)
        version = re.search(r"^Version: (\S+)", stanza, re.M)
        hashes = re.search(r"^Checksums-Sha256:\s*\n((?: .*\n)+)", stanza + "\n", re.M)
        if not (name and version and hashes):
            continue
        for line in hashes[1].splitlines():
            sha256, _, file = line.split()
            if re.search(r"\.orig\.tar\.(gz|xz|bz2)$", file):
                found[name[1]] = Archive("debian", name[1], version[1], file, sha256)
    return found
