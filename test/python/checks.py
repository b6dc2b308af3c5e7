"""Counts checks. One line per check; any failure ends the program with code 1."""

count = 0


def check(good, text):
    global count
    if not good:
        raise AssertionError(text)
    count += 1
    print("ok", text, flush=True)


async def refused(kind, work, text):
    try:
        await work
    except kind:
        return check(True, text)
    check(False, text)


def report():
    print(f"{count} checks")
