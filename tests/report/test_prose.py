"""Sentences on a page: flags stay whole, words are explained, and nothing is let through."""

from __future__ import annotations

import pytest

from hyperslab.report.prose import WORDS, prose


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("Run with --workers 2 --threads 1, or so.", "--workers 2"),
        ("use fewer --workers.", "--workers"),
        ("a larger --memory, if there is", "--memory"),
        ("then -v tells", "-v"),
        ("try --blocks 5x5x5", "--blocks 5x5x5"),
    ],
)
def test_a_flag_is_one_word(text: str, flag: str) -> None:
    assert f'<span class="flag">{flag}</span>' in prose(text)


def test_a_word_is_explained_once_and_nothing_else_changes() -> None:
    said = prose("Of the slots' time in start-up, a slot was idle; blocks, not a blockade.")
    assert said.count("<abbr") == 3
    for word in ("slot", "start-up", "block"):
        assert f'<abbr title="{WORDS[word]}">{word}</abbr>' in said
    assert "blockade" in said
    assert prose("Blocks.") == f'<abbr title="{WORDS["block"]}">Block</abbr>s.'


def test_markup_in_a_sentence_stays_text() -> None:
    assert prose('<script>slot</script> & "a"').startswith("&lt;script&gt;")
    assert "<script" not in prose("<script>")
