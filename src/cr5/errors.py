"""Mistakes that the user can mend: the message is all there is to say."""


class UserError(ValueError):
    """Something given does not fit; the text names it and the way out."""
