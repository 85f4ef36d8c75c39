"""Reports on runs: one set of contents, rendered as HTML, Markdown, CSV and in the terminal."""
