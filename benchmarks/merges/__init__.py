"""The parts of ``benchmarks.merge``."""
