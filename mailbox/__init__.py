"""Typed messages and what carries them: mailboxes, dead letters, the wire format.

This folder is the package `retinue.mailbox`. It stands at the repository's root under a name that the standard library uses too, hence
the guard below.
"""

if __name__ == "mailbox":
    # The repository's root is on sys.path (a REPL there, `python -m …`, a notebook) and somebody, most likely a library, imported the
    # standard library's `mailbox`. Put that one in our place: nobody's import may break because of where a folder lies.
    import importlib.util
    import sys
    import sysconfig

    _spec = importlib.util.spec_from_file_location("mailbox", f"{sysconfig.get_path('stdlib')}/mailbox.py")
    assert _spec is not None and _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["mailbox"] = _module
    _spec.loader.exec_module(_module)
else:
    from retinue.mailbox.errors import MailboxFull, Unhandled, WireError
    from retinue.mailbox.letters import DeadLetter, DeadLetters, DeadLetterStatistics, LetterSubscription
    from retinue.mailbox.messages import Message, MessageInfo, Request, Stream, message, message_info

    __all__ = [
        "DeadLetter",
        "DeadLetterStatistics",
        "DeadLetters",
        "LetterSubscription",
        "MailboxFull",
        "Message",
        "MessageInfo",
        "Request",
        "Stream",
        "Unhandled",
        "WireError",
        "message",
        "message_info",
    ]
