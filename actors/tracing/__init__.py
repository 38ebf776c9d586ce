"""Traces: OpenTelemetry spans of a system's messages, and where they are exported to. Imported only by systems that trace."""
