"""What each person has spent, by itself: a private table, and the one transaction in which a question is settled."""
