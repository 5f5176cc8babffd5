"""Which node runs which replica. `rules.py` decides, as pure functions; `placement_manager.py` applies them and waits for room."""
