"""Mutation tests: which changes of a function no test notices (``make mutants``)."""
