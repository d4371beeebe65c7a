"""Quotations for prompts: JSON strings that nothing inside them can end."""

import json
import re

_marks = re.compile(
    r"<(?=\||\uff5c|/?s>|<?/?SYS>|/?(?:start|end)_of_turn>|(?:bos|eos|unk|pad)>|/?think(?:ing)?>)|\[(?=/?INST\])",
    re.IGNORECASE,
)


def json_quoted(text: str) -> str:
    """The text as a JSON string, on one line, and readable as the same text.

    What begins like a mark with which servers end messages (`<|im_end|>`, `</s>`, `[INST]`) is written as an escape:
    a server that looks for such marks in the text of a message, too, finds none.
    """
    quoted = json.dumps(text, ensure_ascii=False)
    return _marks.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
