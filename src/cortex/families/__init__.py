"""What things mean to an agent: one module per family of tools. Families never import each other."""
