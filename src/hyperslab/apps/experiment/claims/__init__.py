"""Claims of papers, judged by experiments of one's own."""
