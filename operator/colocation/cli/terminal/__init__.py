"""The terminal: shared options, completion, output formats, progress and rows."""
