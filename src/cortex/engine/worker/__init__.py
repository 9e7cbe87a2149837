"""Reading and chunking in child processes: a grammar that hangs or crashes costs one file.

`pool.Pool` is the parent's side, child.py the process, frames.py their protocol. Roads not taken:
threads, because a hang in native code can't be stopped inside a process; `multiprocessing`, which
forks, and has queues that break when a worker is killed.
"""
