//! The agent's way to the web: pages, search, public APIs, and the egress of its shell, under one policy.
