"""What sessions read: tables registered by name, their snapshots, and how many bytes came from where."""
