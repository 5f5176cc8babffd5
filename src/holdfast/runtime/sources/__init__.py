"""Sources: the replay of a recorded trace (`trace_source.py`), and a Structured Streaming reader (`reader_source.py`)."""
