"""Nodes and what runs on them.

Read `resource_manager.py` first: nodes register, send beats and are lost. `replicas.py` holds every replica and its state,
`dispatch.py` computes the assignment of each node, `agent_manager.py` places prediction agents.
"""
