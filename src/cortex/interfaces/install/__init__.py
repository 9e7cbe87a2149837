"""Configuration files of other programs: a table of clients, and merging that can be undone.

clients (the table) -> config_entries (our part of a text) -> plans (the files to change) ->
undo_log (their earlier content). jsonc_edit and toml_edit find the place in a text; safe_files
writes a file. project_files and uninstall_scan are the two other callers: a project's own files,
and everything of ours on a machine.
"""
