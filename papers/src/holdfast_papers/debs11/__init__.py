"""DEBS'11, fault injection into Bargain Discovery: Table 2, Figures 8 to 12, and twelve findings of section 6."""
