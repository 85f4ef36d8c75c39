"""All sources, in the order in which the command line lists them. A new source is a module and two lines here."""

from cr5.sources.bible import BIBLE
from cr5.sources.europarl import EUROPARL
from cr5.sources.folder import FOLDER
from cr5.sources.gettext import GETTEXT
from cr5.sources.moses import MOSES
from cr5.sources.source import Source
from cr5.sources.table import TABLE
from cr5.sources.tmx import TMX

SOURCES: dict[str, Source] = {source.name: source for source in (FOLDER, MOSES, TMX, EUROPARL, GETTEXT, BIBLE, TABLE)}
