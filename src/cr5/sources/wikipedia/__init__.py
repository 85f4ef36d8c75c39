"""Wikipedia dumps to a corpus whose concepts are Wikidata items: ``build.build`` is the entry point."""
