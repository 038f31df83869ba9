"""Documents of several kinds as blocks of text under headings, and the passages that they are cut into."""
