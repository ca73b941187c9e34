"""A person's review: the walk from branch to branch, what is shown of each, and what follows from a decision."""
