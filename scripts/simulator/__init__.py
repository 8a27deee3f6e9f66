"""A faithful fake of the WeCom and Official Account servers, with a chat page and a control API."""
