"""The control plane: jobs, nodes, placement, restarts, and recovery of the orchestrator itself."""
