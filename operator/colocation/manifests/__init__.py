"""Pure functions: model -> Kubernetes objects."""
