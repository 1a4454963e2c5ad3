"""Times calls of the engine's exec and of the package `aifo` in turns: sandbox.py IMAGE AT_ONCE ROUNDS

Prints a line per round: the median time of a call, in nanoseconds, by the engine and by the package.
"""

import asyncio
import statistics
import sys
import time

import aifo


async def timed(call):
    start = time.perf_counter_ns()
    await call()
    return time.perf_counter_ns() - start


async def main(image, at_once, rounds):
    async with aifo.Sandbox(image, engine="docker") as box:

        async def by_engine():
            process = await asyncio.create_subprocess_exec(
                "docker", "exec", box.container, "/bin/true", stdin=asyncio.subprocess.DEVNULL
            )
            assert await process.wait() == 0

        async def by_package():
            assert (await box.exec(["/bin/true"])).code == 0

        for index in range(rounds):
            times = {}
            for call in [by_engine, by_package][:: 1 - 2 * (index % 2)]:
                all_times = await asyncio.gather(*(timed(call) for _ in range(at_once)))
                times[call] = statistics.median_low(all_times)
            print(times[by_engine], times[by_package], flush=True)


asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
