"""ISORC'16, prediction for late PEs.

The `algorithm` modules cover the accuracy and time of prediction algorithms (Table 2, Figures 2 and 3, section IV-A). The
`late_run` modules cover real runs with stalled PEs (Table 4, Figures 6 to 9, section VI).
"""
