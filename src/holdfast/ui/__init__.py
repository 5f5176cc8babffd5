"""The page: what runs, how good its output is, what failed, and what would happen if more did."""
