//! Connections: the HTTP APIs and MCP servers a run calls through the engine, whose credentials it never sees.
