"""The HTTP API of the orchestrator. Read `routes.py` first: it lists the calls and has their handlers.

`calls.py` describes a call and checks requests, `openapi.py` builds the OpenAPI document, `guard.py` limits the calls of each node,
and `listening.py` opens the socket.
"""
