"""How large a spec may be. People write far smaller ones; limits keep hostile input cheap."""

MAX_BYTES = 1_000_000
"""Bytes of a file."""

MAX_DEPTH = 32
"""Levels of objects and lists."""

MAX_VALUES = 20_000
"""Values in a file, containers included."""

MAX_ITEMS = 1_000
"""Items of one object or list."""

MAX_STRING = 50_000
"""Characters of a string or a key."""

MAX_NUMBER = 64
"""Characters of a number."""

MAX_FINDINGS = 100
"""Findings of one kind of check in one file."""
