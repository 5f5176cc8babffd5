"""What losing an operator does to the output, measured by fault injection (DEBS'11)."""
