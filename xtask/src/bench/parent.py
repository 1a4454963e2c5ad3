# Calls two programs in turns with python's captured streams, which are pipes.
# Prints the nanoseconds of each pair. Arguments: native, proxied, pairs.
import subprocess
import sys
import time


def timed(program):
    start = time.perf_counter_ns()
    subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter_ns() - start


native, proxied, pairs = sys.argv[1:]
for pair in range(int(pairs)):
    order = (native, proxied) if pair % 2 == 0 else (proxied, native)
    times = {program: timed(program) for program in order}
    print(times[native], times[proxied])
