"""How the pages are built: Sphinx over Markdown, offline, every warning an error (`make docs`).

Put here: settings of the documentation's build.
Not here: words of any page, or what is generated from the code (tests compare those).
"""

from __future__ import annotations

project = "gpu-ledger"
author = "the gpu-ledger authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
# The project's own console transcripts hold prompts and output, which no lexer reads as code.
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_title = "gpu-ledger"
html_static_path: list[str] = []
# The same sources give the same pages: no date of the build, no copy of the sources.
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_last_updated_fmt = None
