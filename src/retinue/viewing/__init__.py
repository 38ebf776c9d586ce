"""Looking at runs that were recorded: the file of spans is read, and shown as a tree, as JSON and as a web page.

Nothing here records anything, imports OpenTelemetry or opens a connection: the file alone is enough.
"""
