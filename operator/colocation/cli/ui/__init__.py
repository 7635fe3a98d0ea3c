"""``colocation ui``: a page on this machine that shows groups live, with the rights of whoever starts it."""
