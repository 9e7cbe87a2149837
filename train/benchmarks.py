"""Exclusions from the training data: repositories of benchmarks, by name and by content.

By name: package names, and folders inside other packages (bundled copies). By content: `Overlap`
knows the long lines of the benchmarks that are on this machine, and drops a file that shares a
fifth of its own with them. Names alone are not enough: a package may be called anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

# Each line: a repository's name and what packages, folders and well-known forks of it are called.
_NAMES = """
aiohttp
commons-lang commons-lang3 libcommons-lang-java libcommons-lang3-java lang3
ecto ecto-sql
fmt fmtlib fmt-src libfmt spdlog
gson libgoogle-gson-java
kotlinx-coroutines kotlinx.coroutines kotlinx-coroutines-core
rack rack2 rack3 ruby-rack
anthropic-cookbook claude-cookbooks
locomo
fastapi fastapi-slim fastapi-cli fastapi-cloud-cli
flask quart
httpx httpx2 httpxyz
model2vec semble wordllama
pydantic pydantic-core pydantic-v1 pydantic-settings python-pydantic-core
requests niquests
starlette
axios axios-mock-adapter redaxios
express express5 ultimate-express
redux reduxjs redux-toolkit @reduxjs/toolkit
gin gin-gonic golang-github-gin-gonic-gin
cobra golang-github-spf13-cobra
chi go-chi golang-github-go-chi-chi golang-github-go-chi-chi.v5
jackson-databind jackson3-databind libjackson2-databind-java libjackson3-databind-java
guzzle guzzlehttp php-guzzlehttp-guzzle php-guzzle-stream
monolog php-monolog
laravel laravel-framework php-laravel-framework illuminate
sinatra ruby-sinatra
rails railties actionpack activerecord activesupport
tokio rust-tokio rust-tokio-util rust-tokio-stream rust-tokio-macros tokio-util tokio-stream
trpc @trpc/server @trpc/client @trpc/react-query @trpc/next
messagepack-csharp
ktor
cats cats-core
alamofire
click asyncclick python-asyncclick rich-click
serde serde-core serde-derive rust-serde rust-serde-core rust-serde-derive
zod zod4 @zod/core
nlohmann-json nlohmann-json3 nlohmann
phoenix phoenix-framework phoenixframework
axum rust-axum rust-axum-core rust-axum-extra rust-axum-macros axum-core
vitest @vitest/runner @vitest/utils @vitest/expect @vitest/spy @vitest/snapshot @vitest/ui @vitest/browser
newtonsoft-json newtonsoft.json json.net newtonsoft
dapper
exposed jetbrains-exposed
circe
http4s
vapor
plug
abseil abseil-cpp abseil-py absl
curl libcurl
redis valkey keydb redict
libuv libuv1 uv
bats bats-core bats-assert bats-support
aeson haskell-aeson haskell-aeson-pretty attoparsec-aeson
telescope telescope.nvim
lazy.nvim
zig zig0
nvm
bash-it oh-my-bash
pandoc haskell-pandoc haskell-pandoc-types pandoc-types
xmonad xmonad-contrib haskell-xmonad haskell-xmonad-contrib
mini.nvim
zls
zig-clap
rxswift rxcocoa
nvim-lspconfig
sonic-rs
"""
# Folders of these names are words of any code base: they name a bundled copy only below a folder
# for such copies.
_BUNDLES = frozenset(
    "vendor vendored third_party third-party thirdparty 3rdparty external externals extern deps cargo".split()
)
_PLAIN = frozenset(
    "click express cats plug phoenix exposed vapor chi gin rack redis requests lazy curl zig cobra redux uv fmt lang3".split()
)
BENCHMARKS = frozenset(_NAMES.split())
_PREFIX = re.compile(
    r"^(python3?|node|ruby|rust|php|haskell|lua|elixir|erlang|ocaml|js)-|(-java|-ruby|-js)$"
)
_COMMON = ("import ", "from ", "#include", "using ", "*", "//", "#")
_VERSION = re.compile(r"[-.]?v?\d+(\.\d+)*$")


def is_benchmark(name: str) -> bool:
    """True for a package with the name of a benchmark's repository or a fork of it."""
    lower = name.lower()
    bare = _PREFIX.sub("", lower.replace("_", "-"))
    last = bare.rsplit("/", 1)[-1]
    return any(
        word in BENCHMARKS
        for word in (lower, bare, _VERSION.sub("", bare), last, _VERSION.sub("", last))
    )


def is_bundled(path: str) -> bool:
    """True for a path in a folder that is named after a benchmark's repository."""
    folders = [_VERSION.sub("", folder) for folder in path.lower().split("/")[:-1]]
    plain = _PLAIN if not any(folder in _BUNDLES for folder in folders) else frozenset[str]()
    return any(folder in BENCHMARKS and folder not in plain for folder in folders)


class Overlap:
    """The long lines of the benchmarks that are on this machine."""

    SHARE = 0.2
    LEAST_LINES = 4
    LONG = 25

    def __init__(self, texts: Iterable[str]) -> None:
        self.lines = {line for text in texts for line in _long_lines(text)}

    def holds(self, text: str) -> bool:
        """True if a fifth of the text's long lines, and at least four, are in a benchmark too."""
        lines = _long_lines(text)
        shared = sum(line in self.lines for line in lines)
        return shared >= self.LEAST_LINES and shared >= self.SHARE * len(lines)


class Shared:
    """Files of packages that benchmarks have: known ones, and those on this machine."""

    def __init__(self, known: set[tuple[str, str]], overlap: Overlap) -> None:
        self.found = known
        self._overlap = overlap

    @classmethod
    def read(cls, path: Path, folders: list[Path]) -> Shared:
        """From a list of earlier findings, if there is one, and folders of benchmark corpora."""
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        known = {(package, file) for package, _, file in (line.partition("\t") for line in lines)}
        return cls(known, Overlap(text for folder in folders for text in benchmark_texts(folder)))

    def write(self, path: Path) -> None:
        """Write the findings, so that they hold where the benchmarks are not."""
        path.write_text(
            "".join(f"{package}\t{file}\n" for package, file in sorted(self.found)),
            encoding="utf-8",
        )

    def holds(self, package: str, path: str, text: str) -> bool:
        """True for a file that is largely a benchmark's."""
        if (package, path) not in self.found:
            if not self._overlap.holds(text):
                return False
            self.found.add((package, path))
        return True


def benchmark_texts(folder: Path) -> Iterable[str]:
    """Every text under a folder of benchmark corpora."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_size < 4_000_000:
            yield path.read_text(encoding="utf-8", errors="replace")


def _long_lines(text: str) -> set[str]:
    lines = {line.strip() for line in text.splitlines()}
    return {line for line in lines if len(line) >= Overlap.LONG and not line.startswith(_COMMON)}
