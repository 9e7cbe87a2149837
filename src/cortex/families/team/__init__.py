"""Team records: threads, artifacts, observations, tasks, drafts, and the rules for them."""
