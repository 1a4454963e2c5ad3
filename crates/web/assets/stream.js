// The server's events: connects, resumes where it stopped, and notices a lost connection.

import { key } from './api.js';

const SILENCE = 900; // the server sends something at least every 450 ms
const WATCH = 50; // with it, the page is offline after at most 950 ms
const GIVE_UP = 4000;

export class Stream {
  #abort = null;
  #last = '';
  #instance = '';
  #heard = 0;
  #closed = false;
  #tries = 0;
  #wake = () => {};

  constructor(params, handlers) {
    this.params = params;
    this.handlers = handlers;
    this.viewer = 0;
    this.online = true;
    this.watchdog = setInterval(() => this.#watch(), WATCH);
    this.onVisible = () => this.#visible();
    this.onOnline = () => this.#wake();
    this.onOffline = () => {
      this.#state(false);
      this.#abort?.abort();
    };
    document.addEventListener('visibilitychange', this.onVisible);
    addEventListener('online', this.onOnline);
    addEventListener('offline', this.onOffline);
    this.#run();
  }

  close() {
    this.#closed = true;
    clearInterval(this.watchdog);
    document.removeEventListener('visibilitychange', this.onVisible);
    removeEventListener('online', this.onOnline);
    removeEventListener('offline', this.onOffline);
    this.#abort?.abort();
    this.#wake();
  }

  async #run() {
    while (!this.#closed) {
      const end = await this.#connect();
      if (this.#closed) return;
      if (end === 'signed-out' || end === 'gone') {
        this.close();
        this.handlers.end(end);
        return;
      }
      this.#state(false);
      const wait = Math.min(150 * 2 ** this.#tries, 8000) * (0.75 + Math.random() / 2);
      this.#tries += 1;
      await new Promise((resolve) => {
        this.#wake = resolve;
        setTimeout(resolve, wait);
      });
    }
  }

  // Reads one connection to its end and returns why it ended.
  async #connect() {
    const abort = new AbortController();
    this.#abort = abort;
    this.#heard = performance.now();
    const query = new URLSearchParams(this.params);
    query.set('visible', document.hidden ? '0' : '1');
    const headers = { 'x-aifo-key': key() };
    if (this.#last) {
      headers['last-event-id'] = this.#last;
      query.set('instance', this.#instance);
    }
    try {
      const response = await fetch(`/api/stream?${query}`, { headers, signal: abort.signal, cache: 'no-store' });
      if (response.status === 401) return 'signed-out';
      if (response.status === 404) return 'gone';
      if (!response.ok) return 'failed';
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return 'ended';
        this.#heard = performance.now();
        this.#tries = 0;
        this.#state(true);
        rest += value;
        const events = rest.split('\n\n');
        rest = events.pop();
        for (const event of events) {
          if (this.#take(event) === 'gone') return 'gone';
        }
      }
    } catch {
      return 'failed';
    } finally {
      abort.abort();
    }
  }

  #take(text) {
    let name = 'change';
    let data = '';
    let id = '';
    for (const line of text.split('\n')) {
      if (line.startsWith('data: ')) data = line.slice(6);
      else if (line.startsWith('event: ')) name = line.slice(7);
      else if (line.startsWith('id: ')) id = line.slice(4);
    }
    if (!data) return '';
    const value = JSON.parse(data);
    if (name === 'hello') {
      this.viewer = value.viewer;
      this.#instance = value.instance;
      this.handlers.hello(value);
    } else if (name === 'gone') {
      return 'gone';
    } else {
      this.handlers.event(name, value);
      if (name === 'synced' && !this.#last) this.#last = String(value);
    }
    if (id) this.#last = id;
    return '';
  }

  #watch() {
    if (document.hidden) return;
    const silence = performance.now() - this.#heard;
    if (silence > SILENCE) this.#state(false);
    if (silence > GIVE_UP) this.#abort?.abort();
  }

  #visible() {
    if (!document.hidden && performance.now() - this.#heard > 2 * SILENCE) {
      // After a sleep the connection may be dead without a sign.
      this.#abort?.abort();
      this.#wake();
    }
    this.handlers.visible(!document.hidden, this.viewer);
  }

  #state(online) {
    if (online === this.online) return;
    this.online = online;
    this.handlers.online(online);
  }
}
