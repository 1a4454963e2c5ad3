// Shows the server's HTML by key, in the order of the keys' numbers.

const BUDGET = 8; // milliseconds of work at a time
const SHOW = 150; // milliseconds between two times that a long series of events is shown
const GROUP = 64; // blocks of a group, whose layout is skipped while it is out of view

const compare = (one, other) => {
  for (let index = 0; ; index += 1) {
    if (index === one.length || index === other.length) return one.length - other.length;
    if (one[index] !== other[index]) return one[index] - other[index];
  }
};

// Lets the page answer to input. A timer in a chain of timers would wait 4 ms.
const pause = globalThis.scheduler?.yield
  ? () => scheduler.yield()
  : () => new Promise((resolve) => setTimeout(resolve));

export class Blocks {
  #regions = new Map();
  #shown = new Map();
  #queue = [];
  #next = 0;
  #stale = null;
  #new = []; // blocks to be added at the end of a grouped region
  #working = false;

  constructor(root, handlers) {
    this.handlers = handlers;
    for (const element of root.querySelectorAll('[data-region]')) {
      const { region, order, grouped } = element.dataset;
      this.#regions.set(region, { element, isReversed: order === 'desc', isGrouped: grouped !== undefined, list: [] });
    }
  }

  // Removes everything at once.
  clear() {
    this.#queue = [];
    this.#next = 0;
    this.#new = [];
    this.#stale = null;
    this.#shown.clear();
    for (const region of this.#regions.values()) {
      for (const { element, group } of region.list) (group ?? element)?.remove();
      region.list = [];
    }
  }

  event(name, value) {
    this.#queue.push([name, value]);
    if (!this.#working) {
      this.#working = true;
      // Once for all events that have arrived together.
      setTimeout(() => this.#work());
    }
  }

  // Works in slices. Each layout visits all groups, so there are few while events wait.
  async #work() {
    let begin = performance.now();
    let shown = begin;
    let changed = new Set();
    while (this.#next < this.#queue.length) {
      if (performance.now() - begin > BUDGET) {
        this.#append();
        if (begin - shown > SHOW) {
          this.handlers.after(changed);
          changed = new Set();
          shown = performance.now();
        }
        await pause();
        begin = performance.now();
        continue; // The session may have changed.
      }
      const [name, value] = this.#queue[this.#next];
      this.#next += 1;
      this.#apply(name, value, changed);
    }
    this.#append();
    this.#queue = [];
    this.#next = 0;
    this.#working = false;
    this.handlers.after(changed);
  }

  #apply(name, value, changed) {
    if (name === 'reset') {
      this.#stale = new Set(this.#shown.keys());
    } else if (name === 'synced') {
      for (const key of this.#stale ?? []) this.#remove(key);
      this.#stale = null;
      changed.add('synced');
    } else if (name === 'change') {
      this.#stale?.delete(value.key);
      if (value.html === null) this.#remove(value.key);
      else this.#put(value.key, value.html);
      changed.add(value.key.split('.', 1)[0]);
    }
  }

  #put(key, html) {
    const shown = this.#shown.get(key);
    if (shown) {
      if (!shown.element) this.#append();
      this.#replace(shown.element, html);
      return;
    }
    const [name, ...numbers] = key.split('.');
    const region = this.#regions.get(name);
    if (!region) return;
    const entry = { key, numbers: numbers.map(Number), element: null, region, group: null };
    this.#shown.set(key, entry);
    const { list } = region;
    if (region.isGrouped && (list.length === 0 || compare(list.at(-1).numbers, entry.numbers) < 0)) {
      list.push(entry);
      this.#new.push([entry, html]);
      if (this.#new.length >= GROUP) this.#append();
      return;
    }
    this.#append();
    this.#create(entry, html);
    let at = list.length;
    while (at > 0 && compare(list[at - 1].numbers, entry.numbers) > 0) at -= 1;
    const [before, after] = [list[at - 1], list[at]];
    list.splice(at, 0, entry);
    if (region.isGrouped) {
      // Not at the end, so there is a group.
      entry.group = before?.group ?? after.group;
      entry.group.insertBefore(entry.element, before ? before.element.nextSibling : entry.group.firstChild);
    } else {
      region.element.insertBefore(entry.element, (region.isReversed ? before : after)?.element ?? null);
    }
    this.handlers.added(name, entry.element);
  }

  // Adds the new blocks at the end of a region. The browser parses many at a time faster.
  #append() {
    const added = this.#new;
    if (added.length === 0) return;
    this.#new = [];
    const { region } = added[0][0];
    const template = document.createElement('template');
    template.innerHTML = added.map(([, html]) => `<div class="block">${html}</div>`).join('');
    const elements = [...template.content.children];
    const isWhole = elements.length === added.length;
    added.forEach(([entry, html], index) => {
      if (isWhole) {
        entry.element = elements[index];
        entry.element.dataset.key = entry.key;
        this.#finish(entry.element, html);
      } else {
        this.#create(entry, html);
      }
    });
    let group = region.element.lastElementChild;
    if (!group || group.childElementCount + added.length > GROUP) {
      group = document.createElement('div');
      group.className = 'group';
      region.element.append(group);
    }
    group.append(...added.map(([entry]) => {
      entry.group = group;
      return entry.element;
    }));
    group.style.containIntrinsicSize = `auto ${3 * group.childElementCount}rem`;
  }

  #create(entry, html) {
    entry.element = document.createElement('div');
    entry.element.className = 'block';
    entry.element.dataset.key = entry.key;
    this.#fill(entry.element, html);
  }

  #remove(key) {
    const entry = this.#shown.get(key);
    if (!entry) return;
    if (!entry.element) this.#append();
    this.#shown.delete(key);
    entry.region.list.splice(entry.region.list.indexOf(entry), 1);
    entry.element.remove();
    if (entry.group?.childElementCount === 0) entry.group.remove();
  }

  // Keeps what the user has folded or unfolded.
  #replace(element, html) {
    const before = [...element.querySelectorAll('details')];
    const touched = before.map((details) => (details.open === details.defaultOpen ? null : details.open));
    this.#fill(element, html);
    element.querySelectorAll('details').forEach((details, index) => {
      if (touched[index] !== null && touched[index] !== undefined) details.open = touched[index];
    });
  }

  #fill(element, html) {
    element.innerHTML = html;
    this.#finish(element, html);
  }

  #finish(element, html) {
    if (!/<(details|time|img)/.test(html)) return;
    for (const details of element.querySelectorAll('details')) details.defaultOpen = details.open;
    for (const time of element.querySelectorAll('time[data-ms]')) {
      const date = new Date(Number(time.dataset.ms));
      const today = date.toDateString() === new Date().toDateString();
      time.dateTime = date.toISOString();
      time.title = date.toLocaleString();
      time.textContent = today
        ? date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
        : date.toLocaleDateString([], { month: 'short', day: 'numeric' });
    }
    for (const image of element.querySelectorAll('img')) {
      image.addEventListener('error', () => image.classList.add('missing'), { once: true });
    }
  }
}
