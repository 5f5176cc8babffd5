"""Reports: one look, one set of plots, pages that need nothing but themselves."""
