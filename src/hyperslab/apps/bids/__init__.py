"""BIDS datasets: what is in them, and programs run over their participants."""
