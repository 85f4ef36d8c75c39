"""What searches remember of a PostgreSQL database until something in it changes: statistics, frequencies, words.

A snapshot of PostgreSQL names the transactions whose effects it shows. As long as it is the same, so are all rows, and
what an earlier search has read needs no statement. It changes with every transaction of the server that writes, also of
other databases; then everything is read again. Only a server that is restored from a backup may use a number twice.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from cr5.index.stores.postgres_database import Database

Value = TypeVar("Value")

MAX_REMEMBERED_TERMS = 100_000  # terms per language whose document frequencies are remembered
# A standby does not name all transactions; there nothing is remembered.
_VERSION = "SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_snapshot()::text END"


class SharedState:
    """What searches have read of the present state of the database, for all threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest: tuple[str | None, dict[Any, Any]] = (None, {})

    def values(self) -> dict[Any, Any]:
        """What is remembered of the state that the database is in now.

        What a search adds to it later may be newer. By then the database is in another state, and never again in this
        one, so that no later search gets it.
        """
        with self._database.reading() as connection:
            (version,) = connection.execute(_VERSION).fetchone()
        newest, values = self._newest
        if version is None or version != newest:
            values = {}
            self._newest = version, values
        return values


class SearchState:
    """What one search remembers; it looks at the state of the database once, when it first needs to."""

    def __init__(self, shared: SharedState) -> None:
        self._shared = shared
        self._values: dict[Any, Any] | None = None

    @property
    def values(self) -> dict[Any, Any]:
        """What is remembered; every access is atomic."""
        if self._values is None:
            self._values = self._shared.values()
        return self._values

    def get(self, key: object, read: Callable[[], Value]) -> Value:
        """What is remembered under a key, or else is read and remembered."""
        values = self.values
        if key not in values:
            values[key] = read()
        return cast(Value, values[key])

    def frequencies(
        self, terms: dict[str, Sequence[str]], read: Callable[[dict[str, list[str]]], dict[str, list[int]]]
    ) -> dict[str, list[int]]:
        """The document frequencies of terms by language; those that are not remembered are ``read`` together."""
        known = {lang: self.values.setdefault(("frequencies", lang), {}) for lang in terms}
        new = {lang: [term for term in own if term not in known[lang]] for lang, own in terms.items()}
        new = {lang: own for lang, own in new.items() if own}
        found = {lang: dict(zip(new[lang], values, strict=True)) for lang, values in read(new).items()} if new else {}
        result = {}
        for lang, own in terms.items():
            fresh = found.get(lang, {})
            result[lang] = [fresh[term] if term in fresh else known[lang][term] for term in own]
            if len(known[lang]) + len(fresh) > MAX_REMEMBERED_TERMS:
                self.values["frequencies", lang] = fresh  # other threads may still be reading the old one
            else:
                known[lang].update(fresh)
        return result
