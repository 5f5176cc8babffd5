"""The control plane: jobs, nodes, placement, supervision, and recovery of the orchestrator itself."""
