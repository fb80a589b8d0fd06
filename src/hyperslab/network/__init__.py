"""Networks of clusters: what goes over them."""
