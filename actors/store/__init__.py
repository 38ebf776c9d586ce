"""The store: one actor that owns one SQLite file."""
