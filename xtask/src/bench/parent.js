// Calls two programs in turns with node's default streams, which are sockets.
// Prints the nanoseconds of each pair. Arguments: spawn or spawnSync, native, proxied, pairs.
const { spawn, spawnSync } = require('node:child_process');

const [how, native, proxied, pairs] = process.argv.slice(1);
const options = { stdio: ['ignore', 'pipe', 'pipe'] };

const ways = {
  spawnSync(program) {
    const { status, error, stderr } = spawnSync(program, [], options);
    if (status !== 0) throw error ?? new Error(`${program}: ${status}: ${stderr}`);
  },
  spawn(program) {
    return new Promise((resolve, reject) => {
      const child = spawn(program, [], options);
      child.stdout.resume();
      child.stderr.pipe(process.stderr, { end: false });
      child.on('error', reject);
      // Emitted after both streams have ended and the child is reaped.
      child.on('close', (status) => {
        if (status === 0) resolve();
        else reject(new Error(`${program}: ${status}`));
      });
    });
  },
};

async function time(program) {
  const start = process.hrtime.bigint();
  await ways[how](program);
  return process.hrtime.bigint() - start;
}

(async () => {
  for (let pair = 0; pair < Number(pairs); pair += 1) {
    const order = pair % 2 === 0 ? [native, proxied] : [proxied, native];
    const times = {};
    for (const program of order) times[program] = await time(program);
    console.log(`${times[native]} ${times[proxied]}`);
  }
})();
