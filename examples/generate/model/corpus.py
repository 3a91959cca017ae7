# SPDX-License-Identifier: Apache-2.0
"""Makes the training text from Debian packages of public-domain books.

    python3 corpus.py OUT_DIR [--packages DIR]

The packages are fetched with `apt-get download` and unpacked beside each
other; nothing is installed. The text is plain ASCII, one paragraph or verse a
line. A NUL byte ends each chapter: it stands for the model's end token. The
last 3 % of every source are held out. OUT_DIR gets train.bin, heldout.bin and
sources.json, which says where each source lies in both.
"""

import argparse
import hashlib
import json
import os
import re
import struct
import subprocess
import unicodedata
import zlib

HELD_OUT = 0.03

# source: (package, file in it, what it is)
SOURCES = {
    "kjv": ("bible-kjv-text", None, "the King James Bible, 1611"),
    "web": ("sword-text-web", "usr/share/sword/modules/texts/ztext/engWEB2015eb",
            "the World English Bible with the Deuterocanon, dedicated to the public domain"),
    "henry": ("sword-comm-mhcc", "usr/share/sword/modules/comments/zcom/mhcc",
              "Matthew Henry, Concise Commentary, 1706-1721"),
    "spurgeon": ("sword-comm-tdavid", "usr/share/sword/modules/comments/zcom/tdavid",
                 "C. H. Spurgeon, The Treasury of David, 1869-1885"),
    "austen": ("r-cran-janeaustenr", "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb",
               "Jane Austen, six novels, 1811-1818"),
    "melville": ("golang-github-colinmarc-hdfs-dev",
                 "usr/share/gocode/src/github.com/colinmarc/hdfs/testdata/mobydick.txt",
                 "Herman Melville, Moby Dick, 1851"),
    "doyle": ("golang-github-jdkato-prose-dev",
              "usr/share/gocode/src/github.com/jdkato/prose/testdata/sherlock.txt",
              "Arthur Conan Doyle, The Adventures of Sherlock Holmes, 1892"),
    "twain": ("golang-github-pierrec-lz4-dev",
              "usr/share/gocode/src/github.com/pierrec/lz4/testdata/Mark.Twain-Tom.Sawyer.txt",
              "Mark Twain, The Adventures of Tom Sawyer, 1876"),
    "newton": ("golang-github-andybalholm-brotli-dev",
               "usr/share/gocode/src/github.com/andybalholm/brotli/testdata/Isaac.Newton-Opticks.txt",
               "Isaac Newton, Opticks, 1704"),
    "bierce": ("dict-devil", "usr/share/dictd/devil.dict.dz", "Ambrose Bierce, The Devil's Dictionary, 1911"),
}
PACKAGES = sorted({package for package, _, _ in SOURCES.values()} | {"bible-kjv"})


def fetch(directory):
    os.makedirs(directory, exist_ok=True)
    missing = [p for p in PACKAGES if not os.path.isdir(os.path.join(directory, p))]
    if missing:
        subprocess.run(["apt-get", "download", *missing], cwd=directory, check=True, stdout=subprocess.DEVNULL)
        for name in sorted(os.listdir(directory)):
            if name.endswith(".deb"):
                package = name.split("_")[0]
                subprocess.run(["dpkg", "-x", name, package], cwd=directory, check=True)
    versions = {}
    for name in sorted(os.listdir(directory)):
        if name.endswith(".deb"):
            package, version = name.split("_")[:2]
            versions[package] = version.replace("%3a", ":")
    return versions


# ---------------------------------------------------------------- cleaning

def to_ascii(text):
    for old, new in (("\u201c", '"'), ("\u201d", '"'), ("\u2018", "'"), ("\u2019", "'"), ("\u2014", "--"),
                     ("\u2013", "-"), ("\u00a0", " "), ("\u2026", "..."), ("\u00e6", "ae"), ("\u0153", "oe"),
                     ("\u00c6", "AE"), ("\u00a3", "L")):
        text = text.replace(old, new)
    text = unicodedata.normalize("NFKD", text)
    text = text.encode("ascii", "ignore").decode()
    return "".join(c for c in text if c == "\n" or 32 <= ord(c) < 127)


def line(text):
    return re.sub(r"\s+", " ", to_ascii(text)).strip()


def unwrap(text):
    """Joins the lines of each paragraph; blank lines separate paragraphs."""
    text = text.replace("\r", "")
    paragraphs = (line(p) for p in re.split(r"\n[ \t]*\n", text))
    return [p for p in paragraphs if p]


def chapters(paragraphs, heading):
    """Splits at paragraphs that match; the heading opens its chapter."""
    out = [[]]
    for paragraph in paragraphs:
        if re.match(heading, paragraph) and len(paragraph) < 80:
            out.append([])
        out[-1].append(paragraph)
    return ["\n".join(c) + "\n" for c in out if sum(map(len, c)) > 200]


# ---------------------------------------------------------------- readers

def read_kjv(root, _):
    program = os.path.join(root, "bible-kjv/usr/bin/bible")
    data = os.path.join(root, "bible-kjv-text/usr/lib")
    printed = subprocess.run([program, "-f", "-p", data, "gen1:1-rev22:21"], check=True, capture_output=True)
    out, last = [], None
    for verse in printed.stdout.decode("latin-1").splitlines():
        match = re.match(r"([1-3]?[A-Za-z]+)(\d+):(\d+) (.*)", verse)
        if not match:
            continue
        chapter = match.group(1, 2)
        if chapter != last:
            out.append([])
            last = chapter
        out[-1].append(line(match.group(4)))
    return ["\n".join(c) + "\n" for c in out]


def read_sword(root, package, path):
    """A zText or zCom module: .?zs indexes the compressed blocks of .?zz,
    which follow each other in the order of the text."""
    text = ""
    for testament in ("ot", "nt"):
        for kind in "bc":
            base = os.path.join(root, package, path, testament + "." + kind)
            if not os.path.exists(base + "zs"):
                continue
            with open(base + "zs", "rb") as index, open(base + "zz", "rb") as data:
                blob = data.read()
                for offset, size, _ in struct.iter_unpack("<III", index.read()):
                    if size:
                        text += zlib.decompress(blob[offset:offset + size]).decode("utf-8", "replace") + "\n\n"
    text = re.sub(r"<note\b.*?</note>", " ", text, flags=re.S)
    text = re.sub(r"<chapter\b[^>]*sID=[^>]*>", "\n\n\x01\n\n", text)
    text = re.sub(r"<div [^>]*type=\"x-p\"[^>]*>|</?title[^>]*>|</?(table|row|p|lg)\b[^>]*>|<l [^>]*>|<lb[^>]*>",
                  "\n\n", text)
    text = re.sub(r"<[^>]*>", "", text)
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&")):
        text = text.replace(entity, char)
    out = []
    for chapter in text.split("\x01"):
        lines = [re.sub(r" +([,.;:?!])", r"\1", p) for p in unwrap(chapter)]
        if sum(map(len, lines)) > 200:
            out.append("\n".join(lines) + "\n")
    return out


def read_web(root, _):
    # The preface and the glossary are about the edition.
    return [c for c in read_sword(root, *SOURCES["web"][:2]) if "World English Bible" not in c]


def read_henry(root, _):
    out = []
    for chapter in read_sword(root, *SOURCES["henry"][:2]):
        # The outline before each chapter is a table of fragments: keep the prose.
        lines = [p for p in chapter.splitlines() if len(p) > 60]
        if lines:
            out.append("\n".join(lines) + "\n")
    return out


def read_spurgeon(root, _):
    return read_sword(root, *SOURCES["spurgeon"][:2])


def r_strings(blob):
    """The strings of an R serialisation, in order: CHARSXP (type 9) items."""
    at = 0
    for match in re.finditer(rb"\x00[\x04\x00][\x00-\xff]\x09", blob):
        start = match.start()
        if start < at:
            continue
        (length,) = struct.unpack(">i", blob[start + 4:start + 8])
        if 0 <= length < 2000 and start + 8 + length <= len(blob):
            yield blob[start + 8:start + 8 + length].decode("utf-8", "replace")
            at = start + 8 + length


def read_austen(root, path):
    """Rdata.rdb is a run of records: a 4-byte length, then a zlib stream."""
    with open(path, "rb") as file:
        blob = file.read()
    out = []
    while blob:
        stream = zlib.decompressobj()
        record = stream.decompress(blob[4:])
        blob = stream.unused_data
        text = "\n".join(r_strings(record))
        out += chapters(unwrap(text), r"(CHAPTER|Chapter|VOLUME|Volume) ")
    return out


def gutenberg(path):
    with open(path, "rb") as file:
        text = file.read().decode("utf-8-sig", "replace")
    start = re.search(r"\*\*\* ?START OF[^\n]*\n", text)
    end = re.search(r"\*\*\* ?END OF|\nEnd of (the )?Project Gutenberg", text)
    text = text[start.end() if start else 0:end.start() if end else len(text)]
    paragraphs = unwrap(text.replace("_", ""))
    return [p for p in paragraphs if not re.match(r"Produced by |Original Transcriber|This text is a combin", p)]


def pieces(paragraphs, size=4000):
    """For books without chapters of a useful length."""
    out, part = [], []
    for paragraph in paragraphs:
        part.append(paragraph)
        if sum(map(len, part)) > size:
            out.append("\n".join(part) + "\n")
            part = []
    return out + (["\n".join(part) + "\n"] if part else [])


def read_melville(_, path):
    return chapters(gutenberg(path), r"(CHAPTER \d|ETYMOLOGY|EXTRACTS|Epilogue)")


def read_doyle(_, path):
    return chapters(gutenberg(path), r"(ADVENTURE )?[IVX]+\. [A-Z ]+")


def read_twain(_, path):
    return chapters(gutenberg(path), r"(CHAPTER|PREFACE|P R E F A C E|CONCLUSION)")


def read_newton(_, path):
    return pieces(gutenberg(path))


def read_bierce(_, path):
    text = subprocess.run(["gzip", "-dc"], stdin=open(path, "rb"), check=True, capture_output=True).stdout
    paragraphs = unwrap(text.decode("latin-1").replace("_", ""))
    begin = next(i for i, p in enumerate(paragraphs) if p == "PREFACE")
    return pieces(p for p in paragraphs[begin:] if not p.startswith("abcdefgh"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--packages", default="packages", help="where the packages are kept")
    args = parser.parse_args()
    root = os.path.abspath(args.packages)
    versions = fetch(root)
    os.makedirs(args.out, exist_ok=True)
    report, train, held = {}, b"", b""
    for name, (package, path, title) in SOURCES.items():
        documents = globals()["read_" + name](root, path and os.path.join(root, package, path))
        blobs = [d.encode("ascii") + b"\0" for d in documents]
        total, kept, n = sum(map(len, blobs)), 0, len(blobs)
        while n and kept < HELD_OUT * total:
            n -= 1
            kept += len(blobs[n])
        report[name] = {
            "title": title, "package": package, "version": versions[package], "chapters": len(blobs),
            "train": [len(train), len(train) + total - kept], "heldout": [len(held), len(held) + kept],
        }
        train += b"".join(blobs[:n])
        held += b"".join(blobs[n:])
        print(f"{name:9} {len(blobs):5} chapters {total:9} bytes, {kept:7} held out   {package} {versions[package]}")
    for name, blob in (("train", train), ("heldout", held)):
        with open(os.path.join(args.out, name + ".bin"), "wb") as file:
            file.write(blob)
        print(f"{name}: {len(blob)} bytes, SHA-256 {hashlib.sha256(blob).hexdigest()}")
    with open(os.path.join(args.out, "sources.json"), "w") as file:
        json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
