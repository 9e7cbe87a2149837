"""Minimal documents made by hand, so that a test shows their content."""

import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from html import escape

import pytest

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
KINDS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PASSWORD_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")

Line = str | tuple[float, str]  # a text, or its size and the text


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def relations(targets: Mapping[str, tuple[str, str]]) -> str:
    rows = "".join(
        f'<Relationship Id="{key}" Type="{KINDS}/{kind}" Target="{to}"/>'
        for key, (kind, to) in targets.items()
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{rows}</Relationships>'


def docx(body: str, numbering: str = "", styles: str = "", **parts: str) -> bytes:
    """A Word document; `parts` are footnotes and the like by name."""
    every = {"styles": styles, "numbering": numbering, **parts}
    links = {f"r{at}": (name, f"{name}.xml") for at, name in enumerate(every)}
    return zipped({
        "_rels/.rels": relations({"r": ("officeDocument", "word/document.xml")}),
        "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
        "word/_rels/document.xml.rels": relations(links),
        **{f"word/{name}.xml": f"<w:{name} {W}>{content}</w:{name}>" for name, content in every.items()},
    })  # fmt: skip


def pptx(*slides: str, notes: str = "") -> bytes:
    """A presentation of shapes; `notes` belong to the last slide."""
    order = "".join(f'<p:sldId id="{256 + at}" r:id="s{at}"/>' for at in range(len(slides)))
    parts = {
        "_rels/.rels": relations({"r": ("officeDocument", "ppt/presentation.xml")}),
        "ppt/presentation.xml": f"<p:presentation {P} {R}><p:sldIdLst>{order}</p:sldIdLst></p:presentation>",
        # stored in another order than shown
        "ppt/_rels/presentation.xml.rels": relations({
            f"s{at}": ("slide", f"slides/slide{len(slides) - at}.xml") for at in range(len(slides))
        }),
    }  # fmt: skip
    for at, shapes in enumerate(slides):
        name = f"slide{len(slides) - at}.xml"
        parts[f"ppt/slides/{name}"] = (
            f"<p:sld {P} {A}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"
        )
        if notes and at == len(slides) - 1:
            shape = f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="body"/></p:nvPr></p:nvSpPr><p:txBody>{notes}</p:txBody></p:sp>'
            parts["ppt/notesSlides/n.xml"] = (
                f"<p:notes {P} {A}><p:cSld><p:spTree>{shape}</p:spTree></p:cSld></p:notes>"
            )
            parts[f"ppt/slides/_rels/{name}.rels"] = relations(
                {"n": ("notesSlide", "../notesSlides/n.xml")}
            )
    return zipped(parts)


def xlsx(sheets: Mapping[str, str], strings: Sequence[str] = (), styles: str = "") -> bytes:
    """A workbook; a sheet is its rows as XML."""
    names = "".join(
        f'<sheet name="{escape(name)}" r:id="s{at}"/>' for at, name in enumerate(sheets)
    )
    links = {f"s{at}": ("worksheet", f"worksheets/sheet{at}.xml") for at in range(len(sheets))}
    shared = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
    return zipped({
        "_rels/.rels": relations({"r": ("officeDocument", "xl/workbook.xml")}),
        "xl/workbook.xml": f"<workbook {R}><sheets>{names}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": relations({
            **links, "t": ("sharedStrings", "sharedStrings.xml"), "y": ("styles", "styles.xml")
        }),
        "xl/sharedStrings.xml": f"<sst>{shared}</sst>",
        "xl/styles.xml": f"<styleSheet>{styles}</styleSheet>",
        **{f"xl/worksheets/sheet{at}.xml": f"<worksheet><sheetData>{rows}</sheetData></worksheet>"
           for at, rows in enumerate(sheets.values())},
    })  # fmt: skip


def epub(chapters: Mapping[str, str], titles: Mapping[str, str] | None = None) -> bytes:
    """A book: chapters by file name as XHTML, `titles` as its table of contents calls them."""
    entries = "".join(
        f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in chapters
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    points = "".join(
        f'<navPoint><navLabel><text>{title}</text></navLabel><content src="{name}#top"/></navPoint>'
        for name, title in (titles or {}).items()
    )
    return zipped({
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>',
        "OPS/book.opf": '<?xml version="1.0"?><!DOCTYPE package PUBLIC "a" "b.dtd"><package xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<metadata><dc:title>A Book</dc:title><dc:creator>Somebody</dc:creator></metadata><manifest>"
        f'<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>{entries}</manifest><spine>{spine}</spine></package>',
        "OPS/toc.ncx": f"<ncx><navMap>{points}</navMap></ncx>",
        **{f"OPS/{name}": f"<html><head><title>{name}</title></head><body>{body}</body></html>" for name, body in chapters.items()},
    })  # fmt: skip


def rc4(key: bytes, text: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(), 0, 0
    for byte in text:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def pdf(
    pages: Sequence[Sequence[Line]],
    *,
    bookmarks: Sequence[tuple[str, int]] = (),
    password: str = "",
    visible: bool = True,
) -> bytes:
    """A PDF; a line is 14 points below the one before, an empty one leaves a gap.

    Any script: glyphs have no shapes but a meaning.
    """
    characters = sorted({character for page in pages for line in page for character in _text(line)})
    codes = {character: at + 1 for at, character in enumerate(characters)}
    objects: list[bytes] = [b""] * 7
    first = len(objects)
    for page in pages:
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F 3 0 R>>>>/Contents {len(objects) + 2} 0 R>>".encode()
        )
        objects.append(_stream(_drawn(page, codes) if visible else b""))
    kids = " ".join(f"{first + 2 * at + 1} 0 R" for at in range(len(pages)))
    outline = len(objects) + 1
    objects[0] = (
        f"<</Type/Catalog/Pages 2 0 R{f'/Outlines {outline} 0 R' if bookmarks else ''}>>".encode()
    )
    objects[1] = f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode()
    objects[2] = (
        b"<</Type/Font/Subtype/Type0/BaseFont/Made/Encoding/Identity-H/DescendantFonts[4 0 R]/ToUnicode 6 0 R>>"
    )
    objects[3] = (
        b"<</Type/Font/Subtype/CIDFontType2/BaseFont/Made/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"
        b"/FontDescriptor 5 0 R/DW 600>>"
    )
    objects[4] = (
        b"<</Type/FontDescriptor/FontName/Made/Flags 4/FontBBox[0 -200 1000 800]/Ascent 800/Descent -200/CapHeight 700/StemV 80/ItalicAngle 0>>"
    )
    rows = "\n".join(
        f"<{code:04x}> <{character.encode('utf-16-be').hex()}>" for character, code in codes.items()
    )
    objects[5] = _stream(
        f"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <0000> <ffff> endcodespacerange "
        f"{len(codes)} beginbfchar\n{rows}\nendbfchar endcmap end".encode()
    )
    if bookmarks:
        objects.append(
            f"<</Type/Outlines/First {outline + 1} 0 R/Last {outline + len(bookmarks)} 0 R>>".encode()
        )
        for at, (title, page_number) in enumerate(bookmarks):
            after = f"/Next {outline + at + 2} 0 R" if at + 1 < len(bookmarks) else ""
            objects.append(
                f"<</Title({title})/Parent {outline} 0 R{after}/Dest[{first + 2 * page_number + 1} 0 R/Fit]>>".encode()
            )
    return _file(objects, password)


def _text(line: Line) -> str:
    return line if isinstance(line, str) else line[1]


def _drawn(page: Sequence[Line], codes: Mapping[str, int]) -> bytes:
    rows = ["BT 1 0 0 1 50 780 Tm"]
    for line in page:
        size = 10 if isinstance(line, str) else line[0]
        glyphs = "".join(f"{codes[character]:04x}" for character in _text(line))
        rows.append(f"/F {size} Tf 0 -14 Td <{glyphs}> Tj")
    return "\n".join([*rows, "ET"]).encode()


def _stream(content: bytes) -> bytes:
    return b"<</Length %d>>\nstream\n%s\nendstream" % (len(content), content)


def _file(objects: list[bytes], password: str) -> bytes:
    """The objects with their table; a password encrypts each stream by the oldest standard."""
    trailer, key = f"/Root 1 0 R/Size {len(objects) + 1}", b""
    if password:
        padded = (password.encode() + PASSWORD_PADDING)[:32]
        owner = rc4(hashlib.md5(padded).digest()[:5], padded)
        identity = bytes(16)
        key = hashlib.md5(padded + owner + (0xFFFFFFFC).to_bytes(4, "little") + identity).digest()[
            :5
        ]
        trailer += (
            f"/ID[<{identity.hex()}><{identity.hex()}>]/Encrypt<</Filter/Standard/V 1/R 2/O<{owner.hex()}>"
            f"/U<{rc4(key, PASSWORD_PADDING).hex()}>/P -4>>"
        )
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, start=1):
        if key and b"\nstream\n" in content:
            head, _, rest = content.partition(b"\nstream\n")
            own = hashlib.md5(key + number.to_bytes(3, "little") + bytes(2)).digest()[:10]
            content = (
                head + b"\nstream\n" + rc4(own, rest.removesuffix(b"\nendstream")) + b"\nendstream"
            )
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer<<{trailer}>>\nstartxref\n{len(out)}\n%%EOF".encode()
    return bytes(out)


@pytest.fixture
def make_zip() -> Callable[..., bytes]:
    return zipped


@pytest.fixture
def make_docx() -> Callable[..., bytes]:
    return docx


@pytest.fixture
def make_pptx() -> Callable[..., bytes]:
    return pptx


@pytest.fixture
def make_xlsx() -> Callable[..., bytes]:
    return xlsx


@pytest.fixture
def make_epub() -> Callable[..., bytes]:
    return epub


@pytest.fixture
def make_pdf() -> Callable[..., bytes]:
    return pdf
