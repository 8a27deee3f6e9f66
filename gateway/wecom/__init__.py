"""WeCom self-built apps (企业微信自建应用)."""
