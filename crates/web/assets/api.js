// Requests to the server. The key is this origin's own: a cookie alone also reaches other ports.

const KEY = 'aifo-key';

export const key = () => localStorage.getItem(KEY) ?? '';

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function random() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

// Sends a command. If the network fails, it is sent again with the same idempotency key, so the
// server runs it once.
export async function post(path, body = {}, tries = 6) {
  const headers = { 'x-aifo-key': key(), 'idempotency-key': random(), 'content-type': 'application/json' };
  for (let attempt = 1; ; attempt += 1) {
    let response;
    try {
      response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body), cache: 'no-store' });
    } catch (error) {
      if (attempt >= tries) throw new Refused(0, 'the server cannot be reached');
      await pause(Math.min(250 * 2 ** attempt, 4000));
      continue;
    }
    const text = await response.text();
    let answer = {};
    try {
      answer = JSON.parse(text);
    } catch {
      answer = { error: text.trim() };
    }
    if (!response.ok) throw new Refused(response.status, answer.error || `status ${response.status}`);
    return answer;
  }
}

// Exchanges the secret in the address for a cookie and a key.
export async function signIn() {
  const secret = location.hash.slice(1);
  if (!/^[0-9a-f]{64}$/.test(secret)) return;
  history.replaceState(null, '', location.pathname);
  const response = await fetch('/sign-in', { method: 'POST', body: secret, cache: 'no-store' });
  if (response.ok) localStorage.setItem(KEY, (await response.json()).key);
  else if (!key()) throw new Refused(response.status, (await response.json()).error);
}
