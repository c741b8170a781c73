"""Archives: a file is whole once its facts stand beside it, and a changed byte is found when it is read back."""

import pytest

from apportion.errors import BadSnapshot, InvalidInput
from apportion.shards.periods.archive import ArchiveFile, ArchiveReader, ArchiveWriter, archive_name, check_folder

PIECES = (b"1\tone\n", b"2\ttw", b"o\n", b"")


def written(folder):
    archive = ArchiveFile(folder, archive_name("world", "one", "event_20250101"), "copy", {"set": "world"})
    writer = ArchiveWriter(archive)
    for piece in PIECES:
        writer.take(piece)
    return archive, archive.finish(("id", "name"), writer)


def compared(archive, pieces):
    reader = ArchiveReader(archive, "partition event_20250101 of shard one")
    for piece in pieces:
        reader.take(piece)
    reader.end()


def test_a_file_comes_back_as_it_was_written_whatever_the_pieces(tmp_path):
    archive, entry = written(tmp_path)
    assert entry == archive.entry()
    assert (2, 12, False) == (entry.rows, entry.bytes, entry.is_cleared)
    compared(archive, PIECES)
    compared(archive, [b"".join(PIECES)])


@pytest.mark.parametrize("pieces", [(b"1\tone\n",), (b"1\tone\n2\ttwo\n3\n",), (b"1\tone\n2\tTWO\n",), ()])
def test_a_file_of_other_rows_is_refused(tmp_path, pieces):
    archive, _ = written(tmp_path)
    with pytest.raises(BadSnapshot, match="a file of other rows"):
        compared(archive, pieces)


@pytest.mark.parametrize("change", [b"2\ttwO\n", b"2\ttwo", b"2\ttwo\n3\n"])
def test_a_changed_byte_is_found(tmp_path, change):
    archive, _ = written(tmp_path)
    archive.path.write_bytes(b"1\tone\n" + change)
    with pytest.raises(BadSnapshot):
        compared(archive, [b"1\tone\n" + change])


def test_a_file_without_its_facts_counts_as_not_written(tmp_path):
    archive, _ = written(tmp_path)
    archive.about.unlink()
    assert archive.entry() is None


@pytest.mark.parametrize("text", ["{", "[]", '{"columns": ["id"], "rows": -0.5, "bytes": 1, "sha256": "x"}'])
def test_damaged_facts_are_refused(tmp_path, text):
    archive, _ = written(tmp_path)
    archive.about.write_text(text)
    with pytest.raises(BadSnapshot, match="archive"):
        archive.entry()


def test_an_absent_folder_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="a folder that exists"):
        check_folder(tmp_path / "absent")
