"""Commands that bring back dropped or lost tables, or release their files."""
