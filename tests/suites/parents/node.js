// How agents written for node use child processes: `node node.js CASE` runs one case and prints the
// result. node's own pipes are unix sockets.
'use strict';
const { spawn, spawnSync, exec, execFile, execFileSync, execSync } = require('child_process');
const { createHash } = require('crypto');
const fs = require('fs');

const tell = (...what) => fs.writeSync(1, what.map((x) => JSON.stringify(x)).join(' ') + '\n');

// The result of a child, after all of its output.
const whole = (child) => new Promise((resolve) => {
  const seen = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr']) {
    child[name]?.setEncoding('utf8').on('data', (text) => { seen[name] += text; });
  }
  child.on('error', (error) => resolve({ error: error.code }));
  child.on('close', (code, signal) => resolve({ code, signal, ...seen }));
});

const shown = (child, text) => new Promise((resolve) => {
  let seen = '';
  child.stdout.on('data', (data) => {
    seen += data;
    if (seen.includes(text)) resolve();
  });
});

// Short sleeps: a signal just before a sleep does not end it.
const SLEEP = 'import time; print("ready", flush=True); [time.sleep(.05) for _ in range(1200)]';
const UPPER = 'import sys; print(sys.stdin.read().upper())';

const cases = {
  async 'stdin-written-and-ended'() {
    const child = spawn('python3', ['-c', UPPER]);
    child.stdin.end('some text');
    tell(await whole(child));
  },

  async 'stdin-left-open'() {
    const child = spawn('ninja', ['exit', '7']);
    tell(await whole(child));
  },

  async 'output-apart'() {
    tell(await whole(spawn('ninja', ['both', '3'])));
  },

  async conversation() {
    const child = spawn('cmake');
    let turns = 0;
    child.stdout.setEncoding('utf8').on('data', (line) => {
      if (line !== `turn ${turns}\n`) tell('odd', line);
      turns += 1;
      if (turns < 100) child.stdin.write(`turn ${turns}\n`);
      else child.stdin.end();
    });
    child.stdin.write('turn 0\n');
    child.on('close', (code, signal) => tell(turns, code, signal));
  },

  async 'megabytes-both-ways'() {
    const child = spawn('cmake');
    const bytes = Buffer.alloc(8 << 20, 'not quite a power of two, ');
    const [sent, received] = [createHash('md5').update(bytes), createHash('md5')];
    child.stdout.on('data', (data) => received.update(data));
    child.stdin.end(bytes);
    child.on('close', (code) => tell(code, sent.digest('hex') === received.digest('hex')));
  },

  async 'a-reader-that-leaves'() {
    const program = `
import os
try:
    while True: os.write(1, b"x" * 4096)
except ConnectionError: os._exit(6)`;
    const child = spawn('python3', ['-c', program]);
    child.stdout.once('data', () => child.stdout.destroy());
    child.on('close', (code, signal) => tell(code, signal));
  },

  async 'a-tool-that-reads-nothing'() {
    const child = spawn('ninja', ['exit', '3']);
    child.stdin.on('error', (error) => tell(error.code === 'EPIPE' || error.code === 'ECONNRESET'));
    child.stdin.write(Buffer.alloc(4 << 20));
    child.on('exit', (code, signal) => tell(code, signal));
    child.on('exit', () => child.stdin.destroy());
  },

  async exec() {
    const line = 'python3 -c "print(1)" | cmake; ninja say told >&2; ninja exit 3';
    exec(line, (error, stdout, stderr) => tell(error.code, error.signal, stdout, stderr));
  },

  async 'exec-with-timeout'() {
    const line = `exec python3 -c '${SLEEP}'`;
    exec(line, { timeout: 300 }, (error) => tell(error.code, error.signal, error.killed));
  },

  async 'exec-file'() {
    execFile('ninja', ['both', '1'], (error, stdout, stderr) => tell(error, stdout, stderr));
  },

  async 'exec-file-max-buffer'() {
    const told = (error) => tell(error.code, error.signal);
    execFile('clang', { maxBuffer: 100000 }, told);
  },

  async synchronously() {
    const { status, signal, stdout, stderr } =
      spawnSync('python3', ['-c', UPPER], { input: 'in', encoding: 'utf8' });
    tell(status, signal, stdout, stderr);
    tell(execFileSync('cmake', { input: 'text', encoding: 'utf8' }));
    tell(execSync('ninja both 2 2>&1', { encoding: 'utf8' }));
    try {
      execSync('ninja exit 5', { stdio: 'pipe' });
    } catch (error) {
      tell(error.status, error.signal);
    }
    const killed = spawnSync('python3', ['-c', SLEEP], { timeout: 300, killSignal: 'SIGKILL' });
    tell(killed.status, killed.signal, killed.error.code);
  },

  async signals() {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGKILL']) {
      const child = spawn('python3', ['-c', SLEEP]);
      const end = whole(child);
      await shown(child, 'ready');
      child.kill(signal);
      const { code, signal: by } = await end;
      tell(signal, code, by);
    }
  },

  async 'a-handler-of-its-own'() {
    const program = `
      process.on('SIGTERM', () => { console.log('tidied up'); process.exit(6) });
      console.log('ready'); setInterval(() => {}, 1000)`;
    const child = spawn('node', ['-e', program]);
    const end = whole(child);
    await shown(child, 'ready');
    child.kill();
    tell(await end);
  },

  // The end of the group also closes the grandchild's copy of the pipe.
  async 'detached-group'() {
    for (const signal of ['SIGTERM', 'SIGKILL']) {
      const family = `python3 -c '${SLEEP}' & python3 -c '${SLEEP}'`;
      const child = spawn('bash', ['-c', family], { detached: true });
      const end = whole(child);
      await shown(child, 'ready\nready');
      process.kill(-child.pid, signal);
      const { code, signal: by } = await end;
      tell(signal, code, by);
    }
  },

  async 'detached-tool'() {
    const child = spawn('python3', ['-c', SLEEP], { detached: true });
    const end = whole(child);
    await shown(child, 'ready');
    process.kill(-child.pid, 'SIGINT');
    const { code, signal } = await end;
    tell(code, signal);
  },

  async aborted() {
    const controller = new AbortController();
    const child = spawn('python3', ['-c', SLEEP], { signal: controller.signal });
    child.on('error', (error) => tell(error.name));
    child.on('close', (code, signal) => tell(code, signal));
    await shown(child, 'ready');
    controller.abort();
  },

  async inherit() {
    for (const stdio of ['inherit', ['ignore', 'inherit', 'inherit'], ['ignore', 'inherit', 1]]) {
      await whole(spawn('ninja', ['both', '2'], { stdio }));
    }
    tell(await whole(spawn('cmake', { stdio: ['inherit', 'pipe', 'ignore'] })));
  },

  async files() {
    fs.writeFileSync('in', 'from a file\n');
    for (const folder of ['.', process.env.OUTSIDE]) {
      const [input, out] = [fs.openSync('in', 'r'), fs.openSync(`${folder}/out`, 'a')];
      fs.writeSync(out, 'before\n');
      const { code } = await whole(spawn('cmake', { stdio: [input, out, 'ignore'] }));
      fs.writeSync(out, 'after\n');
      tell(code, fs.readFileSync(`${folder}/out`, 'utf8'));
    }
  },

  async 'shell-option'() {
    const line = 'ninja say "$GREETING" && exit 4';
    const env = { PATH: process.env.PATH, GREETING: 'hello there' };
    tell(await whole(spawn(line, { shell: '/bin/bash', env })));
  },

  async 'shell-that-stays'() {
    const shell = spawn('bash', ['--norc']);
    let seen = '';
    shell.stdout.setEncoding('utf8').on('data', (text) => { seen += text; });
    // One line at a time, like an agent that waits for its marker: a socket is relayed, and its
    // content would be read ahead.
    for (const [turn, line] of ['ninja say one', 'cd / && cd -', 'python3 -c "print(2)"'].entries()) {
      const told = shown(shell, `turn ${turn}`);
      shell.stdin.write(`${line}; echo turn ${turn} $?\n`);
      await told;
    }
    shell.stdin.end('exit 5\n');
    shell.on('close', (code) => tell(code, seen));
  },

  async 'many-at-once'() {
    const calls = Array.from({ length: 24 }, (_, n) => whole(spawn('ninja', ['exit', `${n}`])));
    tell((await Promise.all(calls)).map(({ code }) => code));
  },
};

cases[process.argv[2]]();
