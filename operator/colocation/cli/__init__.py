"""The command ``colocation``, also ``kubectl colocation``: thin commands over the API server and the pure packages."""
