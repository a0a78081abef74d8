"""What tasks write is cut into lines, each with the id of its task."""

import os
from collections.abc import Iterator

import pytest

from stem.worker.isolate.output import MAX_LINE, OutputReader, TaskOutput


class Pipe:
    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self.lines = OutputReader()

    def read(self, alone: str = "") -> list[tuple[str, str]]:
        try:
            return self.lines.feed(os.read(self.reading, 1 << 20), alone)
        except BlockingIOError:
            return []


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    os.close(made.reading)
    os.close(made.writing)


@pytest.fixture
def output(pipe: Pipe) -> TaskOutput:
    made = TaskOutput(pipe.writing)
    made.task = "one"
    return made


def test_a_line_bears_its_tasks_id(pipe: Pipe, output: TaskOutput) -> None:
    output.write("a\nb\n")
    assert pipe.read("other") == [("one", "a"), ("one", "b")]


def test_halves_of_lines_are_kept_apart_by_task(pipe: Pipe, output: TaskOutput) -> None:
    output.write("first ")
    output.task = "two"
    output.write("second ")
    output.task = "one"
    output.write("half\n")
    output.task = "two"
    output.flush()
    assert pipe.read() == [("one", "first half"), ("two", "second ")]


def test_output_past_the_stream_belongs_to_the_only_running_task(pipe: Pipe, output: TaskOutput) -> None:
    os.write(pipe.writing, b"raw\nhalf")
    assert pipe.read("one") == [("one", "raw")]
    assert pipe.lines.end() == [("one", "half")]


def test_output_left_in_the_pipe_at_the_end_belongs_to_the_task(pipe: Pipe, output: TaskOutput) -> None:
    os.write(pipe.writing, b"raw\nhalf")
    output.end_task()
    os.write(pipe.writing, b"next\n")
    assert pipe.read("two") == [("one", "raw"), ("one", "half"), ("two", "next")]


def test_a_task_that_wrote_nothing_leaves_nothing_in_the_pipe(pipe: Pipe, output: TaskOutput) -> None:
    output.end_task()
    assert pipe.read() == []


def test_half_a_line_of_a_task_that_is_over_is_not_the_beginning_of_anothers(pipe: Pipe, output: TaskOutput) -> None:
    os.write(pipe.writing, b"half")
    assert pipe.read("one") == []
    output.end_task()  # nothing is unread
    os.write(pipe.writing, b"next\n")
    assert pipe.read("two") == [("one", "half"), ("two", "next")]


def test_lines_are_put_together_wherever_they_were_cut(output: TaskOutput, pipe: Pipe) -> None:
    output.write("eins\n\nzwei drei ü\n")
    data = os.read(pipe.reading, 4096)
    for cut in range(len(data) + 1):
        lines = OutputReader()
        found = lines.feed(data[:cut], "other") + lines.feed(data[cut:], "other")
        assert found == [("one", "eins"), ("one", ""), ("one", "zwei drei ü")]


def test_a_line_without_end_goes_out_in_pieces(pipe: Pipe, output: TaskOutput) -> None:
    output.write("ü" * 20_000)
    found = pipe.read()
    assert {task for task, _ in found} == {"one"} and "".join(text for _, text in found) == "ü" * 20_000
    lines = OutputReader()
    assert lines.feed(b"x" * (MAX_LINE + 1), "one") == [("one", "x" * (MAX_LINE + 1))]


def test_text_that_resembles_a_tag_is_text(pipe: Pipe) -> None:
    os.write(pipe.writing, b"\x02no end of it\n\xff\xfe\n")
    assert pipe.read("one") == [("one", "\x02no end of it"), ("one", "\\xff\\xfe")]
