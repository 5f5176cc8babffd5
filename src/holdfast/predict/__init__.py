"""Predicted output that stands in for a late PE."""
