"""Windows, as far as cr5 can tell: it lacks the modules and names of POSIX and refuses to replace mapped files.

Only modules of cr5 see it. The libraries that they use stay those of this machine.
"""

import builtins
import errno
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

HIDDEN_MODULES = {"crypt", "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
HIDDEN_NAMES = {
    "os": "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK chown fchown fdatasync fork forkpty getegid geteuid getgid "
    "getgroups getloadavg getpgid getpgrp getsid getuid killpg lchown mkfifo mknod nice openpty posix_fadvise "
    "posix_fallocate pread pwrite register_at_fork sched_getaffinity sched_setaffinity sendfile setgid setsid setuid "
    "statvfs sync sysconf uname wait wait3 wait4 waitid",
    "signal": "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 alarm pthread_kill "
    "pthread_sigmask setitimer sigpending sigtimedwait sigwait",
    "mmap": "MADV_DONTNEED MADV_FREE MADV_SEQUENTIAL MADV_WILLNEED MAP_PRIVATE MAP_SHARED PROT_READ PROT_WRITE",
    "socket": "AF_UNIX CMSG_LEN SO_REUSEPORT sethostname",
    "sys": "",
}
SYNCED_FOR_WRITING = os.O_RDWR | os.O_WRONLY


class _Module(ModuleType):
    """A module without the names that Windows lacks."""

    def __init__(self, module: ModuleType, hidden: set[str], replaced: dict[str, Any]) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(replaced)
        self._module, self._hidden = module, hidden

    def __getattr__(self, name: str) -> Any:
        if name in self._hidden:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on Windows")
        return getattr(self._module, name)


def simulate() -> None:
    """Let every module of cr5 that is imported from now on find itself on Windows."""
    replaced: dict[str, dict[str, Any]] = {
        "os": {"name": "nt", "open": _open, "fsync": _fsync},
        "sys": {"platform": "win32"},
    }
    modules = {
        name: _Module(importlib.import_module(name), set(hidden.split()), replaced.get(name, {}))
        for name, hidden in HIDDEN_NAMES.items()
    }
    real_import = builtins.__import__

    def import_module(name: str, globals_: Any = None, locals_: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if (globals_ or {}).get("__name__", "").split(".")[0] == "cr5" and level == 0:
            if name in HIDDEN_MODULES:
                raise ModuleNotFoundError(f"No module named {name!r} on Windows", name=name)
            if name in modules:
                return modules[name]
        return real_import(name, globals_, locals_, fromlist, level)

    builtins.__import__ = import_module  # type: ignore[assignment]
    for name in ("replace", "rename", "unlink", "remove"):
        setattr(os, name, _unless_mapped(getattr(os, name)))


def _open(path: Any, flags: int, *arguments: Any) -> int:
    if Path(path).is_dir():
        raise PermissionError(errno.EACCES, "Permission denied", str(path))
    return os.open(path, flags, *arguments)


def _fsync(descriptor: int) -> None:
    flags = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").split()[3]
    if not int(flags, 8) & SYNCED_FOR_WRITING:
        raise OSError(errno.EBADF, "Bad file descriptor")
    os.fsync(descriptor)


def _unless_mapped(function: Any) -> Any:
    """A function of os that removes its first path and replaces its second, if it has one."""

    def checked(*paths: Any, **options: Any) -> Any:
        folder = options.get("dir_fd")
        for path in paths:
            full = Path(f"/proc/self/fd/{folder}", path) if folder is not None else Path(path)
            mapped = Path("/proc/self/maps").read_text(encoding="utf-8")
            if full.exists() and f" {full.resolve()}\n" in mapped:
                raise PermissionError(errno.EACCES, "Access is denied", str(path))
        return function(*paths, **options)

    return checked


if __name__ == "__main__":  # run a script: windows.py SCRIPT ARGUMENT...
    simulate()
    sys.argv = sys.argv[1:]
    exec(compile(Path(sys.argv[0]).read_text(encoding="utf-8"), sys.argv[0], "exec"), {"__name__": "__main__"})
