"""Many counts of rows under conditions that overlap: measured over the cells that the conditions cut the rows into."""
