"""The web page: what runs, how good its output is, what has failed, and what would happen if more failed.

`plugin` adds the page to an orchestrator and `past_run_server` serves it for a run that has ended. Read `page_data` first: it
defines the data that both supply (`live_page_data`, `playback`) and that `feed` sends to the browser. The browser's part is in
static/, where main.js is the module to read first.
"""
