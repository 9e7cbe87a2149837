"""Judgement of files and folders by name: tool folders, binary, lock and minified files.

Saves opening the file; the readers judge the rest by content.
"""

from __future__ import annotations

from cortex.engine.readers.formats import is_binary_document

# Never scanned: version control, our own store, and folders of package managers and tools.
PRUNED_FOLDERS = frozenset({
    ".git", ".hg", ".svn", ".jj", ".cortex", "node_modules", "bower_components", "jspm_packages",
    "__pycache__", ".venv", ".tox", ".nox", ".eggs", ".mypy_cache", ".pytest_cache", ".ruff_cache",
    ".hypothesis", ".ipynb_checkpoints", ".gradle", ".terraform", ".next", ".nuxt", ".svelte-kit",
    ".parcel-cache", ".turbo", ".dart_tool", ".bundle", ".cargo", ".stack-work", "elm-stuff",
    "DerivedData",
})  # fmt: skip

_BINARY_EXTENSIONS = (
    "png jpg jpeg gif bmp tif tiff ico icns webp avif heic psd ai eps xcf raw cr2 nef "  # images
    "mp3 mp4 m4a m4v wav flac ogg oga ogv opus aac wma avi mov mkv webm wmv flv mid midi "  # media
    "zip gz tgz bz2 tbz2 xz txz zst lz4 7z rar tar jar war ear aar whl egg gem nupkg "
    "crate deb rpm apk ipa dmg iso msi cab pkg snap "
    "ttf otf woff woff2 eot "  # fonts
    # Compiled
    "o a so dylib dll exe lib obj pdb ko class pyc pyo pyd beam wasm elc bc rlib rmeta "
    "node nib hi dex suo "
    "db sqlite sqlite3 db3 mdb accdb frm ibd dbf rdb ldb "  # databases
    "doc xls ppt odt ods odp mobi "  # documents without a reader
    "npy npz pkl pickle joblib h5 hdf5 parquet feather arrow avro orc pt pth ckpt onnx "
    "pb tflite safetensors gguf mat rds rdata "
    "bin dat img swf blend fbx glb stl 3ds mo gmo pack idx rev ds_store lockb pcap wmf "
    "cur ani tga dds mmdb shp shx"
)
_BINARY = frozenset(_BINARY_EXTENSIONS.split())
_LOCKS = frozenset({
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock",
    "deno.lock", "poetry.lock", "pipfile.lock", "uv.lock", "pdm.lock", "pixi.lock", "cargo.lock",
    "composer.lock", "gemfile.lock", "go.sum", "go.work.sum", "mix.lock", "pubspec.lock",
    "podfile.lock", "cartfile.resolved", "package.resolved", "packages.lock.json", "paket.lock",
    "flake.lock", "gradle.lockfile", "conda-lock.yml", "stack.yaml.lock", "rebar.lock",
    "module.bazel.lock", "buf.lock", "chart.lock", ".terraform.lock.hcl",
})  # fmt: skip
_MINIFIED = (
    ".min.js",
    ".min.mjs",
    ".min.cjs",
    ".min.css",
    ".map",
    ".bundle.js",
    ".chunk.js",
    "-min.js",
    "-min.css",
    ".min.html",
)


def reason_by_name(path: str, documents: bool = False) -> str:
    """Reason not to read a file of this name ("binary", "lock file", "minified"), or "".

    `documents` lets binary documents with a reader through. A document may be packed by gzip: then
    its inner name counts.
    """
    name = path.rpartition("/")[2].lower()
    if documents:
        name = name.removesuffix(".gz")
    extension = name.rpartition(".")[2] if "." in name else ""
    if is_binary_document(extension):
        return "" if documents else "binary"
    if extension in _BINARY:
        return "binary"
    if name in _LOCKS:
        return "lock file"
    return "minified" if name.endswith(_MINIFIED) else ""
