"""The tables of a session: whose rows are whose, as which types they are read, what is publicly known of them."""
