"""Size limits of a run. Exceeding one is an error of this run; its host and the other runs continue."""

# Maximum bytes of one event, of the rendered values, and of the state in one checkpoint.
LARGEST_STATE = 64 * 1024 * 1024
# Maximum bytes of the answer to a call.
LARGEST_ANSWER = 200 * 1024 * 1024
# The supervisor destroys the pipe of a host that sends a larger frame.
LARGEST_FRAME = 250 * 1024 * 1024


class StateTooLarge(Exception):
    def __init__(self, what: str, size: int | None = None) -> None:
        given = "" if size is None else f" ({size} bytes)"
        super().__init__(f"{what}{given} exceed the limit of {LARGEST_STATE} bytes")


class Refused(Exception):
    """The supervisor refused: a later attempt holds the run."""


class Unanswered(Exception):
    """The store could not be reached, or failed."""


class CallFailure(Exception):
    """A call without an answer: a code of the error table (schemas/errors.ts) and a sentence."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
