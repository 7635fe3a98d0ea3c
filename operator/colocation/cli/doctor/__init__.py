"""Commands that check an installation and collect a bug report."""
