"""Reports: what a trace says about a run, as numbers, as a chart and as a page."""
