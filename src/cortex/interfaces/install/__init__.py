"""Other programs' files: a table of clients, and merging that can be undone.

clients (who there is) -> entries (what is ours in a text) -> plans (which files change, and how) ->
records (what was there before). jsonc and toml find the place in a text; files write one. project
and traces are the two other callers: a project's own files, and everything of ours on a machine.
"""
