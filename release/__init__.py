"""What a release consists of, and the checks before it: ``make release``, ``python -m release``."""
