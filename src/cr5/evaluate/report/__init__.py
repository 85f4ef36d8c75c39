"""Runs as tables, CSV, Markdown and HTML."""
