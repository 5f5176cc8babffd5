"""The loop closed: what was measured decides what is protected, and is measured again with the plan in place."""
