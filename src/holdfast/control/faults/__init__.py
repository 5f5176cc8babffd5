"""Fault injection inside the orchestrator (System-S, section 5).

`injection_tests.py` reads tests and adds their faults to state machines, `fault_library.py` has the faults, and `fault_plugin.py`
injects them at transitions, by API call, and into the messages of nodes.
"""
