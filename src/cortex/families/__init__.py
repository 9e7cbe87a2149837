"""What things mean to an agent: one module per family of tools.

Families never import each other.
"""

# In the order in which their tools are listed
FAMILIES = ("code", "chunks", "kb", "memory", "team")
