"""The reader of each dump format."""

from cr5.sources.wikipedia import parquet_export, search_index_dump, xml_dump
from cr5.sources.wikipedia.dump_reader import DumpFormat, DumpReader

READERS: dict[DumpFormat, DumpReader] = {
    "cirrus": search_index_dump,
    "xml": xml_dump,
    "parquet": parquet_export,
}
