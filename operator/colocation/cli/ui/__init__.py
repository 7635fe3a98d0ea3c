"""``colocation ui``: a page on this machine that shows groups live, with the rights of the user who starts it."""
