"""Pages: answers as tables, charts and documents."""
