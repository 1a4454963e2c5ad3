// The page: which session is shown, and what its buttons do.

import { Blocks } from './blocks.js';
import { Composer } from './composer.js';
import { Stream } from './stream.js';
import { Timeline } from './timeline.js';
import { key, post, signIn } from './api.js';

const find = (selector) => document.querySelector(selector);
const scroll = find('#scroll');
const banner = find('#banner');
const asks = find('#asks');
const timeline = new Timeline(find('#lanes'), [find('#live'), find('#calls')]);

let stream = null;
let session = '';
let calls = ''; // the session whose timeline is shown; 'own' is this server's agent
let state = '';
let follows = true;
let unseen = 0;
let settled = false;

const blocks = new Blocks(document, {
  after(changed) {
    if (follows && (changed.has('log') || changed.has('asks'))) scroll.scrollTop = scroll.scrollHeight;
    if (!follows && changed.has('log')) find('#latest').hidden = false;
    find('#empty').hidden = find('#log').childElementCount > 0;
    if (changed.has('calls') || changed.has('live')) {
      find('#no-calls').hidden = true;
      timeline.draw();
    }
    if (changed.has('sessions') || changed.has('running')) mark();
    if (changed.has('status')) showState();
    if (changed.has('synced')) settled = true;
  },
  added(region, element) {
    if (region === 'asks') {
      element.dataset.since = String(performance.now());
      const isCall = element.querySelector('[data-call]');
      attention('permission', isCall ? 'A call waits for approval' : 'The agent asks for permission');
    }
  },
});

// The conversation keeps its end in view when a question or the phone's keyboard takes its place.
new ResizeObserver(() => {
  if (follows) scroll.scrollTop = scroll.scrollHeight;
}).observe(scroll);

const composer = new Composer({ session: () => session, open: create });

function showState() {
  const next = find('#status [data-state]')?.dataset.state ?? '';
  const busy = ['starting', 'running', 'cancelling', 'waiting'].includes(next);
  find('#cancel').hidden = !busy;
  find('#send').hidden = busy;
  document.body.dataset.state = next;
  if (settled && ['running', 'waiting'].includes(state) && next === 'idle') attention('end', 'The turn has ended');
  state = next;
}

function open(id, shownCalls = '') {
  stream?.close();
  blocks.clear();
  follows = true;
  session = id;
  calls = shownCalls;
  find('#timeline').hidden = !calls;
  find('#scroll').hidden = Boolean(calls);
  find('#no-calls').hidden = false;
  find('#show-timeline').setAttribute('aria-pressed', String(Boolean(calls)));
  state = '';
  settled = false;
  find('.untitled').textContent = id ? 'Session' : calls ? 'Tool calls' : 'New session';
  document.body.dataset.view = id ? 'session' : calls ? 'calls' : 'home';
  const params = {};
  if (id) params.session = id;
  if (calls) params.calls = calls;
  stream = new Stream(params, {
    event: (name, value) => blocks.event(name, value),
    hello(value) {
      document.body.classList.toggle('watches', value.watches);
      if (value.watches) find('#empty').textContent = 'Choose a running session to see its tool calls.';
    },
    online(online) {
      banner.hidden = online;
      banner.textContent = online ? '' : 'Offline. Connecting again …';
    },
    visible(visible, viewer) {
      if (visible) seen();
      if (viewer) post('/api/visible', { viewer, visible }, 1).catch(() => {});
    },
    end(why) {
      if (why === 'signed-out') showSignIn('This browser has no access. Open the link that aifo-coder web has printed, or one from a browser with access.');
      else location.hash = '';
    },
  });
  composer.show();
  menu(false);
  mark();
}

function mark() {
  for (const link of document.querySelectorAll('a.session')) {
    const current = link.dataset.session ? link.dataset.session === session : link.dataset.calls === calls;
    if (current) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

async function create() {
  const { session: id } = await post('/api/sessions');
  history.pushState(null, '', `#/s=${id}`);
  open(id);
  return id;
}

function route() {
  const id = /^#\/s=([0-9a-f]{16})/.exec(location.hash)?.[1] ?? '';
  const shown = /[/&]c=([0-9a-z]+)$/.exec(location.hash)?.[1] ?? '';
  if (id !== session || shown !== calls || !stream) open(id, shown);
}

function problem(error) {
  find('#problem').textContent = error.message;
}

function menu(opened) {
  document.body.classList.toggle('menu-open', opened);
  find('#menu').setAttribute('aria-expanded', String(opened));
  if (opened) find('#new').focus();
}

function showSignIn(text) {
  find('#app').hidden = true;
  banner.hidden = true;
  find('#sign-in').hidden = false;
  find('#sign-in-text').textContent = text;
  document.body.dataset.view = 'sign-in';
}

// Attention: the title, and a notification if the user wants it.
function attention(tag, text) {
  if (!document.hidden || !settled) return;
  unseen += 1;
  document.title = `(${unseen}) aifo: ${text}`;
  if (globalThis.Notification?.permission === 'granted') {
    try {
      new Notification('aifo', { body: text, tag });
    } catch {
      // Some phones have notifications for installed pages only.
    }
  }
}

function seen() {
  unseen = 0;
  document.title = 'aifo';
}

async function answer(button) {
  const form = button.closest('[data-question]');
  // A tap that was meant for what was there before.
  const since = Number(form.closest('.block')?.dataset.since ?? 0);
  if (performance.now() - since < 350) return;
  // A change of the user's file is answered once it is shown.
  const change = button.closest('details');
  if (change && !change.open) {
    change.open = true;
    form.closest('.block').dataset.since = String(performance.now());
    button.focus();
    return;
  }
  const buttons = form.querySelectorAll('button');
  buttons.forEach((other) => { other.disabled = true; });
  try {
    await post(`/api/questions/${encodeURIComponent(form.dataset.question)}`, { option: button.dataset.option, change: button.dataset.change });
  } catch (error) {
    problem(error);
    buttons.forEach((other) => { other.disabled = false; });
  }
}

asks.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-option]');
  if (button) answer(button);
});
asks.addEventListener('submit', (event) => event.preventDefault());

addEventListener('keydown', (event) => {
  if (event.altKey && !event.repeat && /^Digit[1-9]$/.test(event.code)) {
    const button = asks.querySelector('form')?.querySelectorAll('button[data-option]')[Number(event.code.slice(5)) - 1];
    if (button) {
      event.preventDefault();
      answer(button);
    }
  }
  if (event.key === 'Escape') menu(false);
});

find('#new').addEventListener('click', () => create().then(() => find('#text').focus()).catch(problem));
find('#menu').addEventListener('click', () => menu(true));
find('#side-close').addEventListener('click', () => menu(false));
find('#cancel').addEventListener('click', () => post(`/api/sessions/${session}/cancel`).catch(problem));
find('#close').addEventListener('click', () => post(`/api/sessions/${session}/close`).catch(problem));
find('#delete').addEventListener('click', () => {
  if (confirm('Delete this session and its history?')) post(`/api/sessions/${session}/delete`).catch(problem);
});
find('#show-timeline').addEventListener('click', () => {
  location.hash = calls ? `#/s=${session}` : `#/s=${session}&c=own`;
});
find('#latest').addEventListener('click', () => {
  scroll.scrollTop = scroll.scrollHeight;
});
for (const kind of ['wheel', 'touchmove', 'keydown', 'scroll']) {
  scroll.addEventListener(kind, () => {
    const atEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
    if (kind !== 'scroll' || atEnd) follows = atEnd;
    if (atEnd) find('#latest').hidden = true;
  }, { passive: true });
}
find('#link').addEventListener('click', async () => {
  try {
    const { link } = await post('/api/link');
    find('#link-text').textContent = link;
  } catch (error) {
    problem(error);
  }
});
find('#revoke').addEventListener('click', () => {
  if (confirm('Sign out all browsers?')) post('/api/revoke').then(() => location.reload()).catch(problem);
});
const notify = find('#notify');
notify.hidden = !globalThis.Notification || Notification.permission !== 'default';
notify.addEventListener('click', async () => {
  await Notification.requestPermission();
  notify.hidden = true;
});
addEventListener('hashchange', route);
addEventListener('popstate', route);
addEventListener('focus', seen);

// A phone's keyboard covers the page where the viewport does not shrink by itself.
const viewport = globalThis.visualViewport;
const fit = () => document.documentElement.style.setProperty('--height', `${viewport.height}px`);
viewport?.addEventListener('resize', fit);
if (viewport) fit();

try {
  await signIn();
  if (key()) {
    route();
  } else {
    showSignIn('Open the link that aifo-coder web has printed.');
  }
} catch (error) {
  showSignIn(`Sign-in failed: ${error.message}.`);
}
