"""Small sources of corpora in files."""

import zipfile
from pathlib import Path

from mirror import Mirror

ENGLISH = "The dog barks at the neighbour's cat."
ITALIAN = "Il cane abbaia al gatto del vicino."


def moses(folder: Path) -> list[object]:
    with zipfile.ZipFile(folder / "en-it.txt.zip", "w") as archive:
        archive.writestr("Pets.en-it.en", f"{ENGLISH}\nIt sleeps.\n")
        archive.writestr("Pets.en-it.it", f"{ITALIAN}\nDorme.\n")
        archive.writestr("README", "Nothing to learn from.")
    return [folder / "en-it.txt.zip"]


def tmx(folder: Path) -> list[object]:
    pairs = [(ENGLISH, ITALIAN), ("It sleeps.", "Dorme.")]
    units = "".join(
        f'<tu><tuv xml:lang="EN-us"><seg>{en}</seg></tuv><tuv xml:lang="it"><seg>{it}</seg></tuv></tu>'
        for en, it in pairs
    )
    (folder / "pets.tmx").write_text(f'<tmx version="1.4"><header/><body>{units}</body></tmx>')
    return [folder / "pets.tmx"]


def europarl(folder: Path) -> list[object]:
    for lang, text in (("en", ENGLISH), ("it", ITALIAN)):
        (folder / "raw" / lang).mkdir(parents=True)
        session = f'<CHAPTER ID="1">\n<SPEAKER ID="7" NAME="Rossi">\n{text}\n'
        (folder / "raw" / lang / "ep-00-01-17.txt").write_text(session)
    return [folder / "raw"]


def gettext(folder: Path) -> list[object]:
    (folder / "po").mkdir()
    header = 'msgid ""\nmsgstr "Language: it\\nContent-Type: text/plain; charset=UTF-8\\n"\n'
    (folder / "po" / "it.po").write_text(f'{header}\n#: pets.c:3\nmsgid "{ENGLISH}"\nmsgstr "{ITALIAN}"\n')
    return [folder / "po", "--by", "reference"]


def bible(folder: Path) -> list[object]:
    (folder / "vref.txt").write_text("GEN 1:1\nGEN 1:2\n")
    (folder / "eng-one.txt").write_text(f"{ENGLISH}\nIt sleeps.\n")
    (folder / "ita-one.txt").write_text(f"{ITALIAN}\nDorme.\n")
    return [folder / "eng-one.txt", folder / "ita-one.txt", "--references", folder / "vref.txt"]


def pages(folder: Path) -> list[object]:
    for lang, text in (("en", ENGLISH), ("it", ITALIAN)):
        (folder / "docs" / lang).mkdir(parents=True)
        (folder / "docs" / lang / "pets.html").write_text(f"<title>Pets</title><body><p>{text}</p></body>")
    return [folder / "docs"]


def table(folder: Path) -> list[object]:
    (folder / "pairs.tsv").write_text(f"id\tenglish\ttesto\n1\t{ENGLISH}\t{ITALIAN}\n")
    return [folder / "pairs.tsv", "--concept-column", "id", "--wide", "en=english", "--wide", "it=testo"]


def words(printed: str) -> str:
    """What is printed, however lines are broken."""
    return " ".join(printed.split())


# Failures


OR_SKIP = ", or skip such input with --on-error skip"


def wikipedia(mirror: Mirror, *options: object) -> list[object]:
    return [
        *("wikipedia", "--langs", "da,it", "--source", "xml", "-o", "wiki", "--workers", 1, "--mirror", mirror.url),
        *options,
    ]
