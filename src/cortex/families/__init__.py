"""Tool families: each package holds the domain, tools and commands of one family.

Families never import each other.
"""

# In the order in which their tools are listed.
FAMILIES = ("code", "chunks", "kb", "memory", "team")
