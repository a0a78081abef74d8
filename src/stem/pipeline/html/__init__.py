"""HTML pages with plots, for the report and for what-if."""
