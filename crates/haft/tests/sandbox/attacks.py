"""Tries every way out that is known, and says of each whether it worked.

Run with a JSON object of places; prints one line for each attack: its name, `reached` or `refused`, and why.
"""
import ctypes, fcntl, json, os, signal, socket, stat, struct, sys

at = json.loads(sys.argv[1])
only = sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
ATTACKS = []


def attack(do):
    ATTACKS.append(do)
    return do


def call(name, *args):
    ctypes.set_errno(0)
    result = getattr(libc, name)(*args)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def number(number, *args):
    # A Python int would be passed as a C int. The seventh argument of `syscall` is on the stack, where the upper half of
    # the word is then whatever was there before.
    args = [ctypes.c_long(it) if isinstance(it, int) else it for it in args]
    return call("syscall", ctypes.c_long(number), *args)


def in_child(do):
    """What it does to itself is not done to us."""
    child = os.fork()
    if child == 0:
        try:
            do()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 0:
        raise OSError(code, os.strerror(code))


def write(path, text="x"):
    with open(path, "w") as file:
        file.write(text)


def there_and_back(name):
    os.rename(at["ws"] + "/" + name, at["ws"] + "/elsewhere")
    os.rename(at["ws"] + "/elsewhere", at["ws"] + "/" + name)


# Reading

@attack
def read_outside(): return open(at["outside"] + "/secret").read()

@attack
def read_shadow():
    # One that is empty counts as read: it says that nobody has a password.
    for name in ["gshadow", "shadow-", "gshadow-", "shadow"]:
        try:
            return "%s: %d bytes" % (name, len(open("/etc/" + name).read()))
        except OSError as error:
            last = error
    raise last

@attack
def read_key(): return open(at["home"] + "/.ssh/id").read()

@attack
def read_other_home(): return os.listdir(at["other_home"])

@attack
def read_state(): return open(at["state"] + "/x").read()

@attack
def environment_of_haft():
    return at["canary"] in open("/proc/%d/environ" % at["haft"]).read() or refuse("it is not there")

@attack
def environment_of_anybody():
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if at["canary"] in open("/proc/%s/environ" % name, errors="replace").read():
                found.append(name)
        except OSError:
            pass
    return found or refuse("it is nowhere")

@attack
def memory_of_the_first_process(): return open("/proc/1/mem", "rb+") and "open"

@attack
def files_of_the_first_process():
    for name in os.listdir("/proc/1/fd"):
        return os.readlink("/proc/1/fd/" + name)

@attack
def outside_by_proc_root():
    for process in [at["haft"], 1]:
        try:
            return open("/proc/%d/root%s/secret" % (process, at["outside"])).read()
        except OSError as error:
            last = error
    raise last

@attack
def outside_by_proc_cwd(): return open("/proc/%d/cwd/secret" % at["haft"]).read()

@attack
def hardware_by_sys(): return os.listdir("/sys/kernel")

# Writing

@attack
def write_outside(): write(at["outside"] + "/new")

@attack
def write_read_only_root(): write(at["shared"] + "/new")

@attack
def write_by_link():
    link = at["ws"] + "/link-out"
    if not os.path.islink(link):
        os.symlink(at["shared"] + "/file", link)
    write(link)

@attack
def write_by_hard_link():
    os.link(at["shared"] + "/file", at["ws"] + "/hard")
    write(at["ws"] + "/hard")

@attack
def write_by_descriptor():
    folder = os.open(at["ws"], os.O_RDONLY)
    write("/proc/self/fd/%d/../shared/new2" % folder)

@attack
def write_by_reopening():
    file = os.open(at["shared"] + "/file", os.O_RDONLY)
    write("/proc/self/fd/%d" % file)

@attack
def move_out():
    write(at["ws"] + "/mine")
    os.rename(at["ws"] + "/mine", at["shared"] + "/mine")

@attack
def move_in(): os.rename(at["shared"] + "/file2", at["ws"] + "/stolen")

@attack
def remove(): os.unlink(at["shared"] + "/file3")

@attack
def make_folder(): os.mkdir(at["shared"] + "/folder")

@attack
def truncate(): os.truncate(at["shared"] + "/file", 0)

@attack
def change_mode(): os.chmod(at["shared"] + "/file", 0o777)

@attack
def change_owner(): os.chown(at["shared"] + "/file", os.getuid(), os.getgid())

@attack
def change_times(): os.utime(at["shared"] + "/file", (1, 1))

@attack
def set_attribute(): os.setxattr(at["shared"] + "/file", "user.x", b"x")

@attack
def write_etc(): os.close(os.open("/etc/passwd", os.O_WRONLY))

@attack
def write_usr(): os.close(os.open("/usr/bin/env", os.O_WRONLY | os.O_APPEND))

@attack
def write_core_pattern(): os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))

@attack
def write_sysrq(): os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))

# Control files

@attack
def hook(): write(at["ws"] + "/.git/hooks/post-commit", "#!/bin/sh\n")

@attack
def hooks_renamed():
    os.rename(at["ws"] + "/.git/hooks", at["ws"] + "/.git/hooks2")
    os.rename(at["ws"] + "/.git/hooks2", at["ws"] + "/.git/hooks")

@attack
def git_config(): open(at["ws"] + "/.git/config", "a").close()

@attack
def git_config_replaced():
    write(at["ws"] + "/.git/config.new", open(at["ws"] + "/.git/config").read())
    os.rename(at["ws"] + "/.git/config.new", at["ws"] + "/.git/config")

@attack
def git_renamed():
    os.rename(at["ws"] + "/.git", at["ws"] + "/.git2")
    os.rename(at["ws"] + "/.git2", at["ws"] + "/.git")

@attack
def git_info_renamed():
    os.rename(at["ws"] + "/.git/info", at["ws"] + "/.git/info2")
    os.rename(at["ws"] + "/.git/info2", at["ws"] + "/.git/info")

@attack
def nested_git_config(): open(at["ws"] + "/sub/.git/config", "a").close()

@attack
def deep_git_config(): open(at["ws"] + "/deep/b/c/d/e/.git/config", "a").close()

@attack
def folder_of_a_repository_renamed(): there_and_back("sub")

@attack
def folder_of_folders_renamed(): there_and_back("deep")

@attack
def kept_apart_config(): open(at["ws"] + "/apart/config", "a").close()

@attack
def kept_apart_hook(): write(at["ws"] + "/apart/hooks/post-commit", "#!/bin/sh\n")

@attack
def kept_apart_renamed(): there_and_back("apart")

@attack
def kept_apart_led_elsewhere(): open(at["ws"] + "/apart-tree/.git", "a").close()

@attack
def kept_apart_file_replaced():
    os.rename(at["ws"] + "/apart-tree/.git", at["ws"] + "/apart-tree/git2")
    os.rename(at["ws"] + "/apart-tree/git2", at["ws"] + "/apart-tree/.git")

@attack
def linked_git_config(): open(at["ws"] + "/link/real/config", "a").close()

@attack
def linked_git_hook(): write(at["ws"] + "/link/.git/hooks/post-commit", "#!/bin/sh\n")

@attack
def linked_git_renamed(): there_and_back("link/real")

@attack
def submodule_config(): open(at["ws"] + "/.git/modules/n/m/config", "a").close()

@attack
def submodule_hook(): write(at["ws"] + "/.git/modules/n/m/hooks/post-commit", "#!/bin/sh\n")

@attack
def submodule_led_elsewhere(): open(at["ws"] + "/n/m/.git", "a").close()

@attack
def submodule_renamed(): there_and_back("n")

@attack
def bare_repository_config(): open(at["ws"] + "/bare.git/config", "a").close()

@attack
def worktree_configuration(): write(at["ws"] + "/per/.git/config.worktree", "")

@attack
def tasks_of_an_editor(): open(at["ws"] + "/.vscode/tasks.json", "a").close()

@attack
def own_configuration(): open(at["ws"] + "/haft.toml", "a").close()

@attack
def own_configuration_replaced():
    write(at["ws"] + "/haft.new", "")
    os.rename(at["ws"] + "/haft.new", at["ws"] + "/haft.toml")

# Network and sockets

@attack
def tcp():
    with socket.create_connection(("127.0.0.1", at["tcp"]), 5) as it:
        return it.recv(2)

@attack
def udp():
    it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    it.settimeout(2)
    # Where this socket happens to get the port of the server, it hears itself.
    it.sendto(b"??", ("127.0.0.1", at["udp"]))
    return it.recv(2) == b"hi" or refuse("it is ourselves")

@attack
def far_away():
    it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    it.connect(("192.0.2.1", 53))

@attack
def raw_socket(): socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)

@attack
def packet_socket(): socket.socket(socket.AF_PACKET, socket.SOCK_RAW)

@attack
def unix_socket():
    it = socket.socket(socket.AF_UNIX)
    it.connect(at["ws"] + "/host.sock")
    return it.recv(2)

@attack
def abstract_socket():
    it = socket.socket(socket.AF_UNIX)
    it.connect("\0" + at["abstract"])
    return it.recv(2)

@attack
def vsock(): socket.socket(40, socket.SOCK_STREAM)

@attack
def netlink_events(): socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)

# System calls. The numbers from 424 on are the same on every architecture.

PTRACE, PROCESS_VM_READV, KEYCTL, ADD_KEY, BPF, PERF, CLONE = (
    (101, 310, 250, 248, 321, 298, 56) if os.uname().machine == "x86_64" else (117, 270, 219, 217, 280, 241, 220)
)

@attack
def io_uring():
    return number(425, ctypes.c_uint(4), ctypes.create_string_buffer(120))

@attack
def trace_me(): in_child(lambda: number(PTRACE, 0, 0, 0, 0))

@attack
def trace_haft():
    number(PTRACE, 0x4206, at["haft"], 0, 0)
    number(PTRACE, 17, at["haft"], 0, 0)

@attack
def signal_haft(): os.kill(at["haft"], 0)

@attack
def read_memory():
    data = ctypes.create_string_buffer(8)
    piece = (ctypes.c_ulong * 2)(ctypes.addressof(data), 8)
    return number(PROCESS_VM_READV, os.getpid(), piece, 1, piece, 1, 0)

@attack
def mount():
    call("mount", b"none", (at["ws"] + "/sub").encode(), b"tmpfs", 0, None)
    call("umount2", (at["ws"] + "/sub").encode(), 2)

@attack
def remount(): in_child(lambda: (call("unshare", 0x20000), call("mount", None, b"/", None, 0x1000 | 0x20, None)))

@attack
def unmount_guard():
    call("umount2", (at["ws"] + "/.git/hooks").encode(), 2)

@attack
def new_mount_api(): os.close(number(430, b"tmpfs", 0))

@attack
def user_namespace(): in_child(lambda: call("unshare", 0x10000000))

@attack
def user_namespace_by_clone():
    child = number(CLONE, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

@attack
def user_namespace_by_clone3():
    arguments = struct.pack("8Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    child = number(435, arguments, 64)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

@attack
def enter_namespace():
    space = os.open("/proc/%d/ns/net" % at["haft"], os.O_RDONLY)
    in_child(lambda: call("setns", space, 0))

@attack
def change_root(): in_child(lambda: os.chroot(at["ws"]))

@attack
def make_device(): os.mknod(at["ws"] + "/device", stat.S_IFBLK | 0o600, os.makedev(7, 0))

@attack
def key(): return number(ADD_KEY, b"user", b"haft-test", b"x", 1, -2)

@attack
def keyring(): return number(KEYCTL, 0, -4, 0, 0, 0)

@attack
def bpf(): return os.close(number(BPF, 0, struct.pack("4I", 2, 4, 4, 1) + bytes(100), 48))

@attack
def perf():
    return os.close(number(PERF, struct.pack("IIQ", 1, 128, 0) + bytes(112), 0, -1, -1, 0))

@attack
def file_handle():
    handle = struct.pack("Ii", 64, 0) + bytes(64)
    mount_id = ctypes.c_int()
    number(303 if os.uname().machine == "x86_64" else 264, -100, at["shared"].encode(), handle, ctypes.byref(mount_id), 0)

@attack
def set_id_bit():
    write(at["ws"] + "/tool")
    os.chmod(at["ws"] + "/tool", 0o4755)

@attack
def set_id_bit_at_birth(): os.close(os.open(at["ws"] + "/tool2", os.O_CREAT | os.O_WRONLY, 0o4755))

@attack
def set_id_program():
    said = os.popen(at["ws"] + "/as-root -u 2>&1").read()
    return said.strip() == "0" and os.getuid() != 0 or refuse(said)

@attack
def type_into_terminal():
    ours, theirs = os.openpty()
    def do():
        os.setsid()
        fcntl.ioctl(theirs, 0x540E, 0)
        fcntl.ioctl(theirs, 0x5412, b"x")
    in_child(do)

@attack
def capabilities():
    about = open("/proc/self/status").read()
    some = [line for line in about.splitlines() if line.startswith("Cap") and int(line.split()[1], 16)]
    return some or refuse("there is none")

@attack
def new_privileges(): return "NoNewPrivs:\t0" in open("/proc/self/status").read() or refuse("they are locked")


class Refused(Exception):
    pass


def refuse(why):
    raise Refused(why)


for do in ATTACKS:
    if only and do.__name__ not in only:
        continue
    try:
        print(do.__name__, "reached", repr(do()))
    except (OSError, Refused) as error:
        print(do.__name__, "refused", error)
    sys.stdout.flush()
