"""What things mean to an agent: one module per family of tools. Families never import each other."""

FAMILIES = ("code", "chunks", "kb", "memory", "team")  # in the order in which their tools are listed
