"""The CRDs, their rules, and the reference pages, made from the model at build time."""
