"""Export formats of a session, one module per format.

An export is a function from a log to bytes or text: no clock, no file, no colours. Stored content is passed on
unchanged or escaped for display; no text is added in the name of a person or model.
Read in this order: jsonl, json_document, markdown.
"""
