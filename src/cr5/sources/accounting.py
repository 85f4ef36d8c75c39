"""The accounting of a source: files found = read + skipped, documents read = written + skipped, each by its reason.

A reader makes documents with ``Accounting.document`` and opens files within ``Accounting.reading``. So whatever it
leaves out has a reason, and files that it found but never read are counted as "not read". The extraction of Wikipedia
dumps has its own counts, of pages (`wikipedia.dump_reader`).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cr5.corpus.documents import CONTROL_CHARACTER, Document, has_control_character
from cr5.corpus.fields import value_kind
from cr5.corpus.languages import canonical_code, checked_code
from cr5.corpus.skipped import OnError, SkipCallback, Skipped
from cr5.errors import CorpusError
from cr5.message_parts import one_line, quoted
from cr5.storage.output_paths import check_not_input

NO_TEXT = "no text"
NO_DOCUMENT = "no document in it"
DUPLICATE = "near-duplicate"
FOREIGN = "in another language"
HIDDEN = "hidden"
UNWANTED_LANGUAGE = "language not wanted"
NOT_READ = "not read"  # the reason for files that a reader found, but neither read nor skipped
EXTENSION = "extension"

_DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]+")
_SURROGATE = re.compile("[\ud800-\udfff]")  # stands for a byte of a file name that is not UTF-8


class UnusableInputError(CorpusError):
    """Input that cannot be used, and can be skipped; ``reason`` is the short form under which it is counted."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(one_line(message))  # file names may have line breaks
        self.reason = reason


class Accounting:
    """What became of every file and document of a source.

    ``on_error`` says what happens at unusable input: an error is raised, or it is skipped. ``output`` is the file that
    is being written, which is not read if it is below a folder of the source. Documents that are skipped in other
    languages than ``langs`` are counted as not wanted, whatever else is wrong with them. ``errors`` has the unusable
    input that was skipped: files, documents, and parts of documents such as lines. All of it is counted in
    ``skipped_files``, ``skipped_documents`` or ``skipped_parts`` too, with what was skipped for other reasons, and
    passed to ``on_skip``.
    """

    def __init__(
        self,
        on_error: OnError = "raise",
        output: Path | None = None,
        langs: Collection[str] | None = None,
        on_skip: SkipCallback | None = None,
    ) -> None:
        self._wanted = None if langs is None else set(map(canonical_code, langs))
        self.on_error, self._output = on_error, output.resolve() if output else None
        self.errors = Skipped()
        self.files_found = self.files_read = self.documents_read = 0
        self.written: Counter[str] = Counter()  # documents by language
        self.skipped_files, self.skipped_documents, self.skipped_parts = (Skipped(on_skip=on_skip) for _ in range(3))
        self.skipped_of: Counter[tuple[str, str]] = Counter()  # documents by language and reason
        self.guessed_encodings = Skipped()  # files whose encoding was guessed, by encoding
        self.field_kinds: dict[str, set[str]] = {}  # kinds of the values of fields, such as "numbers"
        self.decimal_commas = Skipped()  # values such as 12,50, which are strings, by field
        self.langs_of_skipped_files: set[str] = set()  # as far as readers know them
        self._pending: Counter[str] = Counter()  # files that were found and neither read nor skipped yet

    # Parts of a document

    def unusable_part(self, reason: str, message: str) -> None:
        """Leave out a part of a document that cannot be used, such as a line; an ``ErrorHandler``."""
        self._handle(reason, message)
        self.skipped_parts.add(reason, message)

    def count_field(self, name: str, value: object) -> None:
        """Note the kind of a field's value, or of each value of a list."""
        kinds = self.field_kinds.setdefault(name, set())
        for item in value if isinstance(value, list) else [value]:
            kinds.add(value_kind(item))
            if isinstance(item, str) and _DECIMAL_COMMA.fullmatch(item):
                self.decimal_commas.add(name, item)

    # Documents

    def document(
        self,
        concept: str,
        lang: str,
        text: str,
        title: str = "",
        url: str = "",
        *,
        fields: Mapping[str, Any] | None = None,
        place: str = "",
        why: str = NO_TEXT,
        check_lang: bool = False,
    ) -> Sequence[Document]:
        """A document that was read, or none if it has no text; then ``place`` is the example of the reason ``why``.

        With ``check_lang``, a language that is not a code is an error here, where its place is known.
        """
        if problem := _problem(concept, text, lang if check_lang else ""):
            reason, explanation = problem
            self.unusable_document(reason, lang, f"{place}: {explanation}" if place else explanation)
            return ()
        self.documents_read += 1
        if text and not text.isspace():
            return (Document(concept, lang, text, title, url, fields=fields or {}),)
        self.skip_document(why, lang, place or concept)
        return ()

    def unusable_document(self, reason: str, lang: str, message: str, *, is_counted: bool = False) -> None:
        """Leave out a document that cannot be used: count it as read, unless it ``is_counted``, and as skipped."""
        self.documents_read -= is_counted  # a document that stops the run was not read
        self._handle(reason, message)
        self.documents_read += 1
        self.skip_document(reason, lang, message)

    def skip_document(self, reason: str, lang: str, example: str) -> None:
        """Leave out a document that was counted as read, for a reason that is not an error."""
        lang = canonical_code(lang)
        if self._wanted is not None and lang and lang not in self._wanted:
            reason = UNWANTED_LANGUAGE
        self.skipped_documents.add(reason, example)
        self.skipped_of[lang, reason] += 1

    @property
    def read(self) -> Counter[str]:
        """The documents in every language that were written or skipped."""
        total = Counter(self.written)
        for (lang, _), count in self.skipped_of.items():
            if lang:
                total[lang] += count
        return total

    # Files

    def count_found(self, file: object) -> None:
        """Count a file that was found; it must be read or skipped later. The file that is being written is an error."""
        if self._output and isinstance(file, Path):
            check_not_input(self._output, [file])
        self.files_found += 1
        self._pending[str(file)] += 1

    def is_output(self, file: Path) -> bool:
        """Whether a file is the one that is being written, or its unfinished copy."""
        if self._output is None:
            return False
        is_unfinished = file.name.startswith(f".{self._output.name}.") and file.name.endswith(".tmp")
        is_named_so = is_unfinished or file.name == self._output.name
        return is_named_so and file.parent.resolve() == self._output.parent

    def replace_by_members(self, file: object) -> None:
        """No longer count an archive that was found: its members are the files."""
        self.files_found -= 1
        self._remove_pending(str(file))

    @contextmanager
    def reading(self, *files: object, langs: Collection[str] = ()) -> Iterator[None]:
        """Count files that are read within the block, or as skipped if that fails or finds no document in them.

        Files that fail after some documents are damaged, but were read. ``langs`` are the languages of the files.
        """
        before = self.documents_read
        try:
            yield
        except CorpusError as error:
            reason = error.reason if isinstance(error, UnusableInputError) else "unreadable file"
            if self.on_error == "raise":
                raise UnusableInputError(reason, str(error)) from None
            self.errors.add(reason, str(error))
            if self.documents_read == before:
                self._close(files, reason, str(error))
                self._skip_langs(langs)
                return
            self.skipped_parts.add(reason, str(error))
        else:
            if self.documents_read == before:
                self._close(files, NO_DOCUMENT)
                self._skip_langs(langs)
                return
        self._close(files)

    def skip_file(self, file: object, reason: str, message: str = "") -> None:
        """Leave out a file, for a reason that is not an error."""
        self._close([file], reason, message)

    def skip_extension(self, file: object, name: str) -> None:
        """Leave out a file with an extension that is not read."""
        self._close([file], f"{EXTENSION} {Path(name).suffix.lower() or 'none'}")

    def unusable_file(self, file: object, reason: str, message: str, *, langs: Collection[str] = ()) -> None:
        """Leave out a file that cannot be used; ``langs`` are its languages."""
        self._handle(reason, message)
        self._close([file], reason, message)
        self._skip_langs(langs)

    def unreadable_folder(self, message: str) -> None:
        """Leave out a folder that cannot be read, so that its files are not counted."""
        self._handle("unreadable folder", message)
        self.skipped_parts.add("unreadable folder", message)

    def finish(self) -> None:
        """Count the files that the reader found, but neither read nor skipped."""
        for file, count in list(self._pending.items()):
            for _ in range(count):
                self._close([file], NOT_READ)

    def extensions(self) -> dict[str, int]:
        """How many files were not read because of their extension, the most frequent first."""
        counts = Counter({reason: count for reason, count in self.skipped_files.counts.items() if is_extension(reason)})
        return {reason.removeprefix(f"{EXTENSION} "): count for reason, count in counts.most_common()}

    def to_json(self) -> dict[str, object]:
        """The counts as plain values, and the first example of each reason."""

        def skipped(items: Skipped) -> dict[str, object]:
            return {"skipped": items.counts, "examples": items.examples}

        return {
            "files": {"found": self.files_found, "read": self.files_read, **skipped(self.skipped_files)},
            "documents": {
                "read": self.documents_read,
                "written": self.written.total(),
                **skipped(self.skipped_documents),
            },
            "parts": skipped(self.skipped_parts),
            "guessed_encodings": self.guessed_encodings.counts,
        }

    def _close(self, files: Sequence[object], reason: str = "", message: str = "") -> None:
        for file in map(str, files):
            self._remove_pending(file)
            if reason:
                self.skipped_files.add(reason, message or file)
            else:
                self.files_read += 1

    def _skip_langs(self, langs: Collection[str]) -> None:
        codes = set(map(canonical_code, filter(None, langs)))
        self.langs_of_skipped_files |= codes if self._wanted is None else codes & self._wanted

    def _remove_pending(self, file: str) -> None:
        """Remove a file from those that are still to be read."""
        self._pending[file] -= 1
        if not self._pending[file]:
            del self._pending[file]

    def _handle(self, reason: str, message: str) -> None:
        if self.on_error == "raise":
            raise UnusableInputError(reason, message)
        self.errors.add(reason, message)


def _problem(concept: str, text: str, lang: str) -> tuple[str, str] | None:
    """Why a document cannot be used, as a short reason and an explanation; None if it can."""
    if has_control_character(concept):
        return CONTROL_CHARACTER, f"the concept is {quoted(concept)}, which has a control character; rename it"
    if _SURROGATE.search(concept):
        return "name not UTF-8", f"the concept is {quoted(concept)}, of a file name that is not UTF-8; rename the file"
    if lang.strip():
        try:
            checked_code(lang)
        except CorpusError as error:
            return "invalid language code", f"{error}, or say in `lang` which language it is"
    if "\0" in text:
        return "NUL character", "the text has a NUL character; convert the file to UTF-8, or remove these characters"
    return None


def is_extension(reason: str) -> bool:
    """Whether files were skipped for their extension."""
    return reason.startswith(f"{EXTENSION} ")
