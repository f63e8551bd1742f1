//! Python stacks as a launch would take them, compared with Python's own account.

use crate::faults::record;
use crate::python::recorder_folder;

/// Hooks, and the stack of a frame as Python shows it.
const HOOKS: &str = r"
import random, threading, types
sys.path.append(FOLDER)
from _stallmap_record import _frames, _library
from _stallmap_record._files import Files
if sys.version_info < (3, 10): sys.exit(77)
hooks, files = _library.load(), Files()
def shown(frame):
    fields = []
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_frames._OWN):
            fields += (files.normalized(code.co_filename), code.co_filename, getattr(code, 'co_qualname', code.co_name))
            fields += (str(code.co_firstlineno), str(frame.f_lineno or 0))
        frame = frame.f_back
    return hooks.state(fields)
library.stallmap_stack.restype = ctypes.c_int64
def learned(): _frames.learn(hooks); return hooks.stack() != 0
";

fn run(program: &str) {
    let hooks = HOOKS.replace("FOLDER", &format!("'{}'", recorder_folder().display()));
    let (_folder, output) = record(&format!("{hooks}{program}"));
    // 77: a Python whose frames are not read.
    assert!(output.status.success() || output.status.code() == Some(77), "{output:?}");
}

#[test]
fn stacks_are_those_that_python_shows_with_the_gil_and_without() {
    run(r"
assert hooks.stack() == 0 and learned()
def with_gil(): return hooks.stack(), shown(sys._getframe())
def without_gil(): return library.stallmap_stack(), shown(sys._getframe())
class Caller:
    def method(self, check): return check()
    def generator(self, check): yield check()
    def key(self, check):
        found = []
        sorted([2, 1], key=lambda _: found.append(check()) or 0)
        return found[0]
def deep(check, depth): return deep(check, depth - 1) if depth else check()
for check in (with_gil, without_gil):
    caller = Caller()
    found = [caller.method(check), next(caller.generator(check)), caller.key(check), deep(check, 60)]
    thread = threading.Thread(target=lambda: found.append(check()))
    thread.start(); thread.join()
    assert all(read == python and read for read, python in found), found
    assert len({read for read, _ in found}) == 5
");
}

#[test]
fn a_stack_is_described_where_the_driver_starts_without_the_gil_of_others() {
    run(r"
from _stallmap_record import _imports
ends = threading.Event()
thread = threading.Thread(target=ends.wait)
thread.start()
library.InitializeInjection()
assert library.stallmap_stack() == 0, 'another thread may hold the GIL'
ends.set(); thread.join()
library.InitializeInjection()
def check(): return library.stallmap_stack(), shown(sys._getframe())
read, python = check()
assert read == python and read, (read, python)
");
}

#[test]
fn threads_that_run_meanwhile_change_nothing() {
    run(r"
assert learned()
def check(): return library.stallmap_stack(), shown(sys._getframe())
ends = False
def spin():
    while not ends: [str(number) for number in range(30)]; sys._current_frames()
threads = [threading.Thread(target=spin) for _ in range(3)]
for thread in threads: thread.start()
found = {check() for _ in range(2000)}
ends = True
for thread in threads: thread.join()
assert len(found) == 1 and all(read == python for read, python in found), found
");
}

#[test]
fn a_wrong_account_of_a_stack_is_refused() {
    run(r#"
right = _frames._described(sys._getframe())
random.seed(7)
def inner(): return _frames._described(sys._getframe())
wrong = [[], right[:5], [0] * 15, [1] * 15, [-1] * 15, [1 << 47] * 15, [id(types.CodeType)] * 15, right[:-7]]
for _ in range(200):
    words = inner()
    for _ in range(random.randrange(1, 4)):
        words[random.randrange(len(words))] = random.choice([0, 8, 1 << 40, random.getrandbits(62), id(words)])
    wrong.append(words)
for words in wrong:
    hooks.frames(words, "/\n\n/own/")
    hooks.stack()
"#);
}

#[test]
fn a_thread_that_is_not_pythons_has_no_stack() {
    run(r"
assert learned()
found = []
start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
thread, result = ctypes.c_ulong(), ctypes.c_void_p()
libc = ctypes.CDLL(None)
assert libc.pthread_create(ctypes.byref(thread), None, library.stallmap_stack, None) == 0
assert libc.pthread_join(thread, ctypes.byref(result)) == 0
assert not result.value
");
}

#[test]
fn threads_of_the_engine_have_the_stack_of_the_call_of_backward() {
    run(r"
assert learned()
c = ctypes.CDLL(None)
def of_new_thread():
    thread, stack = ctypes.c_ulong(), ctypes.c_void_p()
    c.pthread_create(ctypes.byref(thread), None, ctypes.cast(library.stallmap_stack, ctypes.c_void_p), None)
    c.pthread_join(thread, ctypes.byref(stack))
    return stack.value or 0
def backward(): return library.stallmap_engine(1), shown(sys._getframe())
# Threads have the name of the one that creates them: PR_SET_NAME.
c.prctl(15, b'pt_autograd_0')
assert of_new_thread() == 0
_, python = backward()
assert python and of_new_thread() == python % (1 << 64), python
c.prctl(15, b'worker')
assert of_new_thread() == 0
c.prctl(15, b'pt_autograd_0')
library.stallmap_engine(0)
assert of_new_thread() == 0
");
}
