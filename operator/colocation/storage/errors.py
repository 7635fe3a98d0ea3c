"""What storage refuses, one class per cause. Messages say what was given, what is allowed, what to do."""


class StorageError(Exception):
    """Base class; nothing was changed on disk."""


class InvalidPath(StorageError):
    """A namespace, directory or path that is not allowed, or that leads through a symbolic link."""


class NotHeld(StorageError):
    """There is no such file."""


class FileCorrupt(StorageError):
    """The file is there, but its content is not the one that its manifest names."""


class ContentConflict(StorageError):
    """Another content is already published under this path."""


class DigestDiffers(StorageError):
    """The content that arrived does not have the digest that was announced."""


class NoRoom(StorageError):
    """The disk is full or would fall below its headroom."""


class ManifestMissing(StorageError):
    """A manifest that was named is not held, or is damaged, so it is not known which files are wanted."""
