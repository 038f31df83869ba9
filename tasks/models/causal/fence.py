"""Text of others in a prompt: between tags that it cannot end.

`<` in the text is written `&lt;`: no text can end its tag, open another, or spell a control of a chat template. The
prompt around it has to say, outside of the tags, that what stands between them instructs nobody. Whoever asks a model
to copy from such a text reads the copy through `unfenced`.
"""


def fenced(tag: str, text: str) -> str:
    """A text between tags, which it cannot end."""
    return f"<{tag}>\n{text.replace('<', '&lt;')}\n</{tag}>"


def unfenced(copied: str, text: str) -> str:
    """A model's copy from a text that was fenced, as the text has it. Where the text has `&lt;` itself, nobody can say
    which is which, and the copy is left alone."""
    return copied if "&lt;" in text else copied.replace("&lt;", "<")
