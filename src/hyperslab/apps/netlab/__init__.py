"""Clusters in a laboratory of links: made, measured and removed together."""
