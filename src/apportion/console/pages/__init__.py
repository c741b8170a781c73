"""Pages: each page is one HTML file with its charts and its style in it."""
