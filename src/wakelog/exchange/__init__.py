"""Other shapes of a session: one file a format, each reading or writing what others understand.

An export is a function from a log to bytes or text: no clock, no file, no colours. What is stored is
handed on as it is, or made harmless by whoever shows it; nothing here invents words in anybody's name.
Read in this order: jsonl, json_document, markdown.
"""
