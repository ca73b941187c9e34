"""What the stage puts back is what the program left there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from stage import Stage, digest


def test_a_run_that_recurs_is_put_back_as_it_was_left(make_repo, tmp_path: Path) -> None:
    (tmp_path / "staged").mkdir()
    stage = Stage(tmp_path / "staged")
    seen = []
    for task in ("echo a > a; ln -s a b", "echo a > a; ln -s a b", "echo other > a", "echo a > a; ln -s a b"):
        repo = stage.begin(lambda path: shutil.move(make_repo().path, path))
        done = repo.parallel("run", "--json", "--program", "shell", task)
        state = digest(stage.path)
        (worker,) = json.loads(done.stdout)["workers"]
        assert repo.git("status", "--porcelain", cwd=Path(worker["worktree_path"])) == ""
        assert repo.git("fsck", "--strict") == ""
        seen.append((done, state))
        shutil.rmtree(stage.path)
    first, kept, other, again = seen
    assert kept == again
    assert len({first[1], kept[1], other[1]}) == 3
