"""Wikipedia dumps to a corpus aligned by Wikidata item: ``build.build`` is the entry point."""
