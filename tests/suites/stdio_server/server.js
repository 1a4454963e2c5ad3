// A JSON-RPC server over stdio, one message per line.
'use strict';

const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');

const lines = require('readline').createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'exit') process.exit(params);
  if (method === 'die') process.kill(process.pid, 'SIGKILL');
  if (id % 7 === 0) send({ method: 'progress', params: { at: id } });
  send({ id, result: [...params].reverse().join('') });
});
lines.on('close', () => console.error('end of input'));
