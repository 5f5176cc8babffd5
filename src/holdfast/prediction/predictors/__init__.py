"""The prediction algorithms of ISORC'16, section IV-A, and some more, one per module.

`predictor` is the interface that all of them implement, `registry` finds them by name, `guarded_calls` calls them safely.
"""
