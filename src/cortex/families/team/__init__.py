"""What a team keeps: threads, artifacts, observations, tasks, drafts, and what they mean."""
