"""The page of questions and answers about GPUs gives each answer a command or a link."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "gpus-on-openshift.md"


def test_every_answer_has_a_command_or_a_link_to_a_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    # A question is bold at the start of a line; its answer ends at the next one or at a heading.
    answers = re.findall(r"^\*\*(.+?\?)\*\*(.*?)(?=^\*\*|^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(answers) == text.count("?**") > 20
    shown = re.compile(r"^ {4}\S|(?<!!)\[[^]]+\]\([^)]+\.md", re.MULTILINE)
    assert [question for question, answer in answers if not shown.search(answer)] == []
