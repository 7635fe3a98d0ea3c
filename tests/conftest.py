"""For all tests."""

from hypothesis import settings

# A busy machine is not a failure: what takes too long is ended by pytest's own time-out.
settings.register_profile("colocation", deadline=None)
settings.load_profile("colocation")
