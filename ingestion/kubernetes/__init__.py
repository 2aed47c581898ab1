"""The lifecycle: a collector's journal, and decoding it into lifecycle rows."""
