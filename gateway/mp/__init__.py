"""Official Accounts (公众号)."""
