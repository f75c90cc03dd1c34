"""Terms that a translation must use: the file, where they stand in a source, and the search that writes them."""
