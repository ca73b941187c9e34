"""What a command loads, and when: much of the time of a short one."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
sys.argv = ["git-parallel", *sys.argv[1:]]
from git_parallel import __main__

def leave(code):
    names = [name for name in ("hashlib", "inspect", "platform", "textwrap") if type(sys.modules[name]) is type(sys)]
    names += ["_hashlib"] if "_hashlib" in sys.modules else []
    print("loaded:", *names, file=sys.stderr)
    sys.exit(0)

__main__._leave = leave
__main__.main()
"""

LATER = """
import sys
from git_parallel.later import Later, put_off
put_off()
later = sys.modules["inspect"]
assert type(later) is Later
"""


def said(script: str, *words: str, cwd=None) -> str:
    """Run a script in an interpreter of its own; return what it says at standard error."""
    argv = [sys.executable, "-c", script, *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("words", [("status",), ("list",), ("run", "-q", "--program", "shell", "echo x > new")])
def test_what_only_help_and_schemas_need_is_not_loaded(repo, words):
    loaded = said(LOADED, *words, cwd=repo.path).splitlines()[-1].split()
    if words[0] == "run" and sys.version_info >= (3, 12):  # dataclasses, which dulwich has one of, ask inspect there
        loaded.remove("inspect")
    assert loaded == ["loaded:"]


def test_help_loads_what_it_needs(repo):
    assert "loaded: inspect" in said(LOADED, "run", "-h", cwd=repo.path)


@pytest.mark.parametrize(
    "use",
    [
        "import inspect; assert inspect.getsource(inspect.cleandoc)",
        "from inspect import signature; assert str(signature(lambda a: 0)) == '(a)'",
        "assert later.cleandoc('x\\n  y\\n    z') == 'x\\ny\\n  z'; assert later.cleandoc(' x') == 'x'",
        "assert not hasattr(later, 'no_such_thing'); assert later.isclass(int)",
        "import platform, os; assert platform.system() == os.uname().sysname; assert platform.python_version()",
        "import hashlib; assert hashlib.md5(b'x').hexdigest() and hashlib.new('sha512')",
        "from hashlib import sha1; assert type(sys.modules['hashlib']) is Later; assert sha1(b'').digest_size == 20",
        "import hashlib; assert hashlib.sha256(b'x').digest() == hashlib.new('sha256', b'x').digest()",
        "sys.modules['_sha1'] = None; import hashlib; assert hashlib.sha1(b'').digest_size == 20",
        "import textwrap; assert textwrap.dedent(' x') == 'x'",
        "import dataclasses; assert dataclasses.make_dataclass('A', ['b']).__doc__ == 'A(b: \\'typing.Any\\')'",
    ],
)
def test_who_needs_them_gets_them(use):
    said(f"{LATER}{use}")


@pytest.mark.parametrize("doc", ["x", " x", "\tx", "x \t y ", "", " ", "x\n", "\n x\n  y\n"])
def test_texts_are_cleaned_up_as_they_are_by_inspect(doc):
    said(
        f"{LATER}import inspect as later; ours = later.cleandoc({doc!r})\nlater.isclass\n"
        f"assert ours == sys.modules['inspect'].cleandoc({doc!r}), ours"
    )
