import io
import threading

from weft_host.process import mark, mark_of


def output_of(work) -> str:  # type: ignore[no-untyped-def]
    """The output of `work(output, set_slot)`."""
    buffer = io.BytesIO()
    output = io.TextIOWrapper(buffer, encoding="utf-8", line_buffering=True)
    slot = threading.local()
    mark(output, lambda: getattr(slot, "now", 0))

    def set_slot(now: int) -> None:
        slot.now = now

    work(output, set_slot)
    output.flush()
    return buffer.getvalue().decode()


def test_the_parts_of_a_line_share_their_marks():
    def work(output, set_slot):  # type: ignore[no-untyped-def]
        print("no run", file=output)
        set_slot(7)
        print("one", 2, file=output)
        print("open", end="", file=output)
        set_slot(8)
        print("other", file=output)
        set_slot(0)
        output.writelines(["a\n", "b\n"])

    seven, eight, none = mark_of(7), mark_of(8), mark_of(0)
    assert output_of(work) == (f"no run\n{seven}one 2\n{none}{seven}open{eight}other\n{none}a\nb\n")


def test_an_open_line_of_a_run_ends_its_mark_with_the_next_text():
    def work(output, set_slot):  # type: ignore[no-untyped-def]
        set_slot(7)
        output.write("open")
        set_slot(0)
        assert output.write("text") == 4

    assert output_of(work) == f"{mark_of(7)}open{mark_of(0)}text"
