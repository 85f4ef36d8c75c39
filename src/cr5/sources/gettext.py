"""Catalogues of gettext: the messages of programs and their translations as documents."""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Literal, NamedTuple, TypeAlias, get_args

from cr5.corpus.documents import Document
from cr5.corpus.languages import bcp47_code, is_registered, is_same_language, primary_subtag
from cr5.errors import CorpusError, one_of
from cr5.hashing import digest
from cr5.message_parts import quoted
from cr5.sources.accounting import NO_TEXT, Accounting, UnusableInputError
from cr5.sources.catalogue_files import Message, read_mo, read_po
from cr5.sources.files import MAX_LINE_BYTES, open_source
from cr5.sources.input_files import matching_files
from cr5.sources.language_names import LanguageNames, NamedLanguages
from cr5.sources.source import ParameterHelp, Source
from cr5.storage.compressed import split_suffix
from cr5.storage.text_encodings import evident_encoding, put_back

GettextUnit: TypeAlias = Literal["message", "reference", "catalogue"]

NOT_TRANSLATED = "not translated, or marked as fuzzy"
_COMPILED = (".mo", ".gmo")
_FILE_NAME = re.compile(r".+\.(?:po|g?mo)(?:\.(?:gz|bz2|xz))?", re.IGNORECASE)


def read_gettext(
    paths: Annotated[Sequence[Path], ParameterHelp("Files or folders.", metavar="PATH")],
    *,
    by: Annotated[
        GettextUnit,
        ParameterHelp("Unit that becomes one document: message, reference (source file) or catalogue.", metavar="UNIT"),
    ] = "message",
    source_lang: Annotated[str, ParameterHelp("Language of the untranslated messages.", metavar="CODE")] = "en",
    lang: NamedLanguages = None,
    accounting: Accounting | None = None,
) -> Iterator[Document]:
    """Read the messages of catalogues, each alone, or joined by source file or by catalogue.

    A folder stands for all its .po, and for the .mo and .gmo without a .po next to them. The language is that of the
    header, else that of the path (de.po, app-de.po, app/de/de.po, de/LC_MESSAGES/app.mo), else ""; ``lang`` has names
    of languages in either that are no codes. A translated message is a document in ``source_lang`` too, once; pass ""
    if the ids are keys rather than text. The concept is "app:digest", "app:path/file.c" or "app", where ``app`` is the
    path of the catalogue below the folder, without the language. By reference or catalogue, memory holds one catalogue
    at a time.
    """
    one_of("by", by, get_args(GettextUnit))
    accounting, names = accounting or Accounting(), LanguageNames(lang)
    seen: set[bytes] = set()
    for file in _find_files(paths, names, accounting):
        with accounting.reading(file.path, langs=[file.language_and_name("")[0]]):
            catalogue = _Catalogue(file, by, source_lang, seen, accounting)
            yield from catalogue.messages() if by == "message" else catalogue.groups()
    names.warn_of_unused("no header or path of a catalogue")


# Documents


class _Catalogue:
    """The documents of one catalogue; ``seen`` has the digests of concepts whose source text was yielded before."""

    def __init__(
        self, file: "_CatalogueFile", by: GettextUnit, source_lang: str, seen: set[bytes], accounting: Accounting
    ) -> None:
        self.file, self.by, self.source_lang, self.seen, self.accounting = file, by, source_lang, seen, accounting
        self.lang = self.domain = ""

    def messages(self) -> Iterator[Document]:
        for message in self.read():
            key = digest(f"{message.context}\4{message.id}", 8)
            concept = f"{self.domain}:{key.hex()}"
            source = _joined((message.id, message.plural))
            yield from self.documents(concept, _joined(message.texts), source, message.texts != ())

    def groups(self) -> Iterator[Document]:
        texts_of: dict[str, tuple[list[str], list[str]]] = {}
        translated: set[str] = set()  # concepts with a translated message
        untranslated: Counter[str] = Counter()  # messages without a translation, or with a fuzzy one, by concept
        unreferenced = 0  # translated messages without a reference
        for message in self.read():
            concepts = (
                [self.domain] if self.by == "catalogue" else [f"{self.domain}:{name}" for name in message.references]
            )
            for concept in concepts:
                texts, sources = texts_of.setdefault(concept, ([], []))
                texts.append(_joined(message.texts))
                sources.append(_joined((message.id, message.plural)))
            if message.texts:
                translated.update(concepts)
                unreferenced += not concepts
            else:
                untranslated.update(concepts)
        if unreferenced and not texts_of:
            raise UnusableInputError(
                "no references",
                f"{self.file.path}: its messages have no references to source files; "
                "pass a .po that has them, or choose `by=message` or `by=catalogue`",
            )
        if unreferenced:
            self.accounting.skipped_parts.add("message without a reference", str(self.file.path), unreferenced)
        # A document without any translated message is skipped as a whole.
        for concept in filter(translated.__contains__, untranslated):
            self.accounting.skipped_parts.add(NOT_TRANSLATED, f"{self.file.path}: {concept}", untranslated[concept])
        for concept, parts in texts_of.items():
            text, source = ("\n".join(filter(None, part)) for part in parts)
            yield from self.documents(concept, text, source, concept in translated)

    def unusable_message(self, reason: str, message: str) -> None:
        """Leave out a message, which is a document of its own, or a part of one."""
        if self.by == "message":
            self.accounting.unusable_document(reason, self.lang or self.file.language_and_name("")[0], message)
        else:
            self.accounting.unusable_part(reason, message)

    def read(self) -> Iterator[Message]:
        """Read the messages of the catalogue without its header, which sets the language."""
        path = self.file.path
        with open_source(path) as stream:
            if not self.file.is_compiled:
                stream = _checked(stream, path)
            messages = (read_mo if self.file.is_compiled else read_po)(stream, str(path), self.unusable_message)
            first = next(messages, None)
            if first is None:
                return
            is_header = not first.context and not first.id
            declared = _header("".join(first.texts)).get("language", "") if is_header else ""
            declared = self.file.names.code(declared)
            named, self.domain = self.file.language_and_name(declared if is_registered(declared) else "")
            self.lang = _choose_language(declared, named)
            for message in messages if is_header else chain([first], messages):
                if message.id:
                    yield message

    def documents(self, concept: str, text: str, source: str, translated: bool) -> Iterator[Document]:
        place = f"{self.file.path}: {quoted(source)}"
        why = NO_TEXT if translated else NOT_TRANSLATED
        if text and self.source_lang:
            key = digest(concept, 8)
            if key not in self.seen:
                self.seen.add(key)
                yield from self.accounting.document(concept, self.source_lang, source, place=place, check_lang=True)
            if self.lang == self.source_lang and text == source:
                text = ""
                why = "same as the source text"
        yield from self.accounting.document(concept, self.lang, text, place=place, why=why, check_lang=True)


def _joined(texts: Sequence[str]) -> str:
    """The different forms of a message, one per line."""
    return "\n".join(dict.fromkeys(filter(None, map(plain, texts))))


def _header(text: str) -> dict[str, str]:
    fields = (line.partition(":") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in fields}


def _checked(stream: IO[bytes], path: Path) -> IO[bytes]:
    """The stream of a .po from its beginning, unless that is in an encoding that gettext does not have."""
    start = stream.readline(MAX_LINE_BYTES)
    if (encoding := evident_encoding(start)) not in (None, "utf-8-sig"):
        advice = f"convert it with iconv -f {encoding} -t utf-8, and write charset=UTF-8 in its header"
        raise UnusableInputError("unknown charset", f"{path}: {encoding}, which catalogues cannot be in; {advice}")
    return put_back(stream, start)


# Plain text

_TAG = re.compile(r"</?([A-Za-z][\w:-]*+)(?:\s[^<>]*+|/)?>")
_BLOCKS = frozenset({"br", "dd", "div", "dt", "h1", "h2", "h3", "h4", "hr", "li", "p", "para", "td", "th", "tr"})
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,31});")
_PLACEHOLDER = re.compile(
    r"%%"
    r"|%(?:\([^()\s]{1,60}\))?(?:\d{1,3}\$)?[-+#0']*+(?:I(?=\d{0,5}l{0,2}[diu]))?"
    r"(?:\*(?:\d{1,3}\$)?|\d{1,5})?(?:\.(?:\*|\d{1,5})?)?"
    r"(?:hh|h|ll|l|L|q|j|z|t|I64)?[diouxXeEfFgGaAcCsSpnmr@]"  # printf's, with glibc's %Id, Python's and Objective-C's
    r"|%L?\d{1,2}"  # Qt's
    r"|\{%[^{}%]{0,200}%\}"
    r"|[$#]?\{\{?\s{0,9}[\w.!:<>=^,+*\[\]/%-]{0,60}\s{0,9}\}?\}"
    r"|\$(?:[A-Za-z_]\w{0,60}|\(\w{1,60}\))"
)
_APPENDED_KEY = re.compile(r"[ \t]?\([_&~]\w\)")  # in scripts whose letters are not on the keyboard
_KEYS = {mark: re.compile(rf"(?<![A-Z]){mark}(?=[^\W\d_])|{mark}(?=[^\W\d_A-Z])") for mark in "_&~"}  # not R&D


def plain(text: str) -> str:
    """The plain text of a message, without tags, placeholders and accelerator keys, one paragraph per line."""
    text = _TAG.sub(lambda tag: " " if tag[1].lower() in _BLOCKS else "", text)
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    text = _PLACEHOLDER.sub(lambda match: "%" if match[0] == "%%" else " ", text)
    text = _APPENDED_KEY.sub("", text)
    for mark, pattern in _KEYS.items():
        if text.count(mark) == 1:  # several are not an accelerator key
            text = pattern.sub("", text)
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


# Files


class _CatalogueFile(NamedTuple):
    """The file of a catalogue with the folders above it.

    All ``folders`` may name the language; those from ``first_named_folder`` on are part of the catalogue's name.
    """

    path: Path
    folders: tuple[str, ...]
    first_named_folder: int
    names: LanguageNames

    @property
    def name(self) -> str:
        """The file's name without the suffix of a compression."""
        return split_suffix(self.path.name)[0]

    @property
    def is_compiled(self) -> bool:
        return Path(self.name).suffix.lower() in _COMPILED

    def language_and_name(self, declared: str) -> tuple[str, str]:
        """The language in the path, and the name of the catalogue, which is the path without the language."""
        lang, used, stem = self.find_language(declared)
        used |= {i for i, folder in enumerate(self.folders) if lang and is_same_language(folder, lang)}  # app/de/de.po
        unused = [folder for i, folder in enumerate(self.folders) if i not in used]
        inner = [folder for i, folder in enumerate(self.folders) if i not in used and i >= self.first_named_folder]
        parts = [*inner, stem] if stem else inner or unused[-1:]
        return lang, "/".join(parts) or "messages"

    def find_language(self, declared: str) -> tuple[str, set[int], str]:
        """The language, the positions of the folders that name it, and the rest of the file's name."""
        stem, last = Path(self.name).stem, len(self.folders) - 1
        for i in range(last, 0, -1):
            if self.folders[i].startswith("LC_"):
                return self.names.code(self.folders[i - 1]), {i - 1, i}, stem
        candidates: list[tuple[str, set[int], str]] = [(stem, set(), "")]
        separators = re.finditer(r"[-_.]", stem)
        candidates += [(stem[separator.end() :], set(), stem[: separator.start()]) for separator in separators]
        candidates += [(self.folders[i], {i}, stem) for i in range(last, -1, -1)]
        for name, used, rest in candidates:
            if name in self.names.codes:
                return self.names.code(name), used, rest
        for candidate in candidates if declared else ():  # the header tells de/how-to.po from Tongan
            if is_registered(candidate[0]) and _same_primary(candidate[0], declared):
                return candidate
        for candidate in candidates:
            if _is_code(candidate[0], 2):
                return candidate
        # Many words of three letters are codes: "app" and "src" are languages.
        return candidates[0] if not declared and _is_code(stem, 3) else ("", set(), stem)


def _find_files(paths: Sequence[Path], names: LanguageNames, accounting: Accounting) -> list[_CatalogueFile]:
    files: list[_CatalogueFile] = []
    for path in paths:
        if not path.is_dir():
            accounting.count_found(path)
            folders = path.resolve().parts[1:-1][-2:]
            files.append(_CatalogueFile(path, folders, len(folders), names))
            continue
        expected = "catalogue in this folder; their names end in .po, .mo or .gmo, which .gz, .bz2 or .xz may follow"
        inside = matching_files(path, _FILE_NAME, expected, accounting)
        plain = {file: file.with_name(split_suffix(file.name)[0]) for file in inside}
        texts = {name.with_suffix("") for name in plain.values() if name.suffix.lower() == ".po"}
        for file, name in plain.items():
            if name.suffix.lower() == ".po" or name.with_suffix("") not in texts:
                folders = (path.resolve().name, *file.relative_to(path).parts[:-1])
                files.append(_CatalogueFile(file, folders, 1, names))
            else:
                accounting.skip_file(file, "compiled from the .po beside it")
    if not files:
        raise CorpusError("no catalogue given; name .po and .mo files, or their folder")
    return files


def _choose_language(declared: str, named: str) -> str:
    """The language in the header, unless the path alone has its script or variant: sr, sr@latin -> sr@latin."""
    if not named or not is_registered(declared):
        return named or declared
    is_same = _same_primary(named, declared)
    return named if is_same and _has_script(named) and not _has_script(declared) else declared


def _has_script(code: str) -> bool:
    """Whether a code has a script or a variant, which are longer than regions."""
    return any(len(subtag) > 3 for subtag in bcp47_code(code).split("-")[1:])


def _same_primary(code: str, other: str) -> bool:
    return is_same_language(primary_subtag(code), primary_subtag(other))


def _is_code(name: str, letters: int) -> bool:
    return len(primary_subtag(name)) == letters and is_registered(name)


GETTEXT = Source(
    "gettext",
    read_gettext,
    help="""Message catalogues of gettext, .po and .mo.

    Single messages are often too short to learn from. --by reference joins the
    messages of a source file; --by catalogue joins all messages of a catalogue,
    also where no source files are named (.mo). Translations that are marked as
    fuzzy are left out. Examples:

        cr5 corpus gettext po/ --by reference -o corpus.parquet

        cr5 corpus gettext /usr/share/locale --by catalogue -o corpus.parquet
    """,
    short_documents_advice="join messages with `by=reference` or `by=catalogue`",
)
