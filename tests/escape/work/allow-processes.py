"""subprocess, multiprocessing, threads, signals, asyncio, and pipes between them.
CASES: ESC-11 ESC-32
"""
import asyncio
import concurrent.futures
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading


def square(x):
    return x * x


async def conversation():
    process = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = await process.communicate(b"hello")
    assert out == b"hello"

    async def echo(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"line\n")
    assert await reader.readline() == b"line\n"
    writer.close()
    server.close()
    await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(100)))
    assert await asyncio.to_thread(square, 3) == 9


def main():
    assert subprocess.run(["true"]).returncode == 0
    assert subprocess.run("echo a | tr a b", shell=True, capture_output=True).stdout == b"b\n"
    assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, start_new_session=True).stdout == b"1\n"
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(3) as pool:
            assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]
    shared, lock = multiprocessing.Value("i", 0), multiprocessing.Lock()
    assert shared.value == 0 and lock.acquire()
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(square, range(3))) == [0, 1, 4]
    done = queue.Queue()
    threads = [threading.Thread(target=lambda n=n: done.put(n)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done.queue) == list(range(10))
    asyncio.run(conversation())
    heard = []
    signal.signal(signal.SIGUSR1, lambda *a: heard.append(a))
    os.kill(os.getpid(), signal.SIGUSR1)
    assert heard
    signal.signal(signal.SIGALRM, lambda *a: heard.append(a))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()
    assert len(heard) == 2
    child = os.posix_spawn("/bin/true", ["true"], os.environ)
    assert os.waitpid(child, 0)[1] == 0
    print("works")


if __name__ == "__main__":
    main()
