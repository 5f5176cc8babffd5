"""System-S (ICAC'07), recovery of a killed orchestrator: Figure 8, the crash during a dispatch (section 6.2), and larger sizes."""
