"""The configuration: its schema, and how command-line words become one."""
