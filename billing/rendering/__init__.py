"""Files made from sealed documents: PDF, text, CSV, JSON, FOCUS and the page of a check.

Put here: formats; they see the sealed document and nothing else.
Not here: the record, facts, or folders (`billing.documents_folder`).
"""
